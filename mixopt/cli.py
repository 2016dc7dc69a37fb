"""The command line: `mixopt recipe study.yaml` and its parts. Each verb reads files and writes files."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decide what a language model is trained on, for how long, at which batch size and learning rate.",
)

StudyPath = Annotated[Path, typer.Argument(help="The study: a YAML file. `mixopt init` writes one.")]
OutPath = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of results; default outputs/<study name>.")]
ExecutorName = Annotated[str, typer.Option(help="Who trains the proxies: local, or simulate (a known law plus noise).")]


def _plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that the user can mend end in one sentence and exit code 2; a fault of ours shows its traceback."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except (ValueError, OSError, ModuleNotFoundError) as error:
            if (sentence := _sentence(error)) is None:
                raise
            typer.secho(f"mixopt: {sentence}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.secho(
                "mixopt: stopped; what was finished is kept, and the same command goes on from there.", err=True
            )
            raise typer.Exit(130) from None

    return run


def _sentence(error: Exception) -> str | None:
    """What to tell the user; None where the error was not raised on purpose, by a line of this package."""
    if isinstance(error, ModuleNotFoundError):
        ours = (error.name or "").partition(".")[0] in ("", "mixopt")
        return None if ours else f"the package {error.name} is not installed; run: pip install 'mixopt[all]'"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}." if error.filename else None
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = Path(trace.tb_frame.f_code.co_filename) if trace else Path()
    return str(error) if Path(__file__).parent in raised_in.parents else None


@app.command(epilog="Example: mixopt recipe recipes/quickstart.yaml")
@_plainly
def recipe(study: StudyPath, out: OutPath = None, executor: ExecutorName = "local") -> None:
    """From text to a recipe: tokenize, train the proxies, fit, decide, emit, report. Resumes where it stopped."""
    from mixopt.console import make_recipe

    make_recipe(study, out, executor)


@app.command(epilog="Examples: mixopt sweep study.yaml --dry-run; mixopt sweep study.yaml")
@_plainly
def sweep(
    study: StudyPath,
    out: OutPath = None,
    executor: ExecutorName = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the runs and their cost; train nothing.")] = False,
) -> None:
    """Train the proxy runs of a study into a table of runs."""
    from mixopt.console import show_sweep, train_sweep

    if dry_run:
        show_sweep(study, out)
    else:
        train_sweep(study, out, executor)


@app.command(epilog="Examples: mixopt fit runs.csv --dry-run; mixopt fit runs.csv --columns columns.yaml")
@_plainly
def fit(
    runs: Annotated[str, typer.Argument(help="CSV, TSV, JSONL, parquet, a tracker's folder, or wandb:entity/project.")],
    columns: Annotated[Path | None, typer.Option(help="YAML file that says which column means what.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="A target to fit; several times for more; default all.")
    ] = None,
    holdout: Annotated[str, typer.Option(help="larger, mixtures, a number of folds, or auto.")] = "auto",
    replicates: Annotated[int, typer.Option(min=20, help="Bootstrap fits behind the intervals.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of starts, folds and replicates.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder; default outputs/<table>-fit.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how the table is read, fit nothing.")] = False,
) -> None:
    """Fit a table of runs: which law predicts unseen runs best, its numbers, and how sure they are."""
    from mixopt.console_fit import fit_table, show_table

    if dry_run:
        show_table(runs, columns, target or [])
    else:
        fit_table(
            runs,
            columns=columns,
            targets=target or [],
            holdout=int(holdout) if holdout.isdigit() else holdout,
            replicates=replicates,
            seed=seed,
            out=out,
        )


@app.command(epilog="Example: mixopt emit outputs/quickstart/recipe.yaml --to huggingface --to olmo_core")
@_plainly
def emit(
    recipe: Annotated[Path, typer.Argument(help="A recipe.yaml.")],
    to: Annotated[list[str], typer.Option("--to", help="Name of a training stack; may be given several times.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder; default emit/ beside the recipe.")] = None,
) -> None:
    """Write a recipe as the configuration files of training stacks."""
    from mixopt.emit.write import write
    from mixopt.recipe import Recipe

    read = Recipe.read(recipe)
    for name in to:
        for path in write(read, name.replace("-", "_"), (out or recipe.parent / "emit") / name.replace("-", "_")):
            typer.echo(path)


@app.command(epilog="Example: mixopt report recipes/quickstart.yaml")
@_plainly
def report(study: StudyPath, out: OutPath = None, executor: ExecutorName = "local") -> None:
    """Draw the report of a study whose recipe has been made, again."""
    from mixopt.console import draw_report

    draw_report(study, out, executor)


@app.command(epilog="Example: mixopt init study.yaml")
@_plainly
def init(path: Annotated[Path, typer.Argument(help="Where to write the study.")] = Path("study.yaml")) -> None:
    """Write a study to start from, with every option explained."""
    from mixopt.study import template

    if path.exists():
        raise ValueError(f"{path} exists; name another file, or remove it first.")
    path.write_text(template(), encoding="utf-8")
    typer.echo(f"{path}: fill in your corpora, targets and budget, then run: mixopt sweep {path} --dry-run")


@app.command(epilog="Example: mixopt schema > study.schema.json")
@_plainly
def schema() -> None:
    """Print the JSON Schema of a study, for editors."""
    import json

    from mixopt.study import Study

    typer.echo(json.dumps(Study.json_schema(), indent=1))
