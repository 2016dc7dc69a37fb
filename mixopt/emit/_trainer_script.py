"""The script that the Hugging Face emitter writes beside its `train.yaml`."""

SCRIPT = '''"""Trains on train.yaml: `python train.py train.yaml`, or `torchrun --nproc-per-node 8 train.py train.yaml`.

Every corpus is tokenized and packed into sequences of one length before the corpora are interleaved, so examples are
equally long and probabilities are shares of tokens.
"""

import os
import sys
from pathlib import Path

import yaml
from datasets import Dataset, interleave_datasets, load_dataset
from transformers import (
    AutoTokenizer,
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".txt": "text"}
END_OF_TEXT = ("<eos>", "<|endoftext|>", "</s>")
MICRO_BATCH = 16  # sequences on a device at once, at most; lower it where memory runs out


class DecayingTrainer(Trainer):
    """Weight decay as in the proxies: on every matrix but the embedding."""

    def get_decay_parameter_names(self, model) -> list[str]:
        return [name for name in super().get_decay_parameter_names(model) if "embed" not in name]


def micro_batches(sequences: int, processes: int) -> dict[str, int]:
    """The largest micro-batch that divides what each process has of a batch, and how many of them it takes."""
    each, rest = divmod(sequences, processes)
    if rest:
        allowed = [number for number in range(1, sequences + 1) if sequences % number == 0]
        below, above = max(n for n in allowed if n < processes), [n for n in allowed if n > processes]
        nearest = " or ".join(str(number) for number in [below, *above[:1]])
        sys.exit(f"{sequences} sequences do not divide among {processes} processes; start {nearest} processes instead.")
    micro = max(size for size in range(1, MICRO_BATCH + 1) if each % size == 0)
    return {"per_device_train_batch_size": micro, "gradient_accumulation_steps": each // micro}


def packed(name: str, files: list[str], tokenizer, end: int | None, length: int) -> Dataset:
    """Sequences of `length` tokens; the column "text" of every row, or every whole .txt file, is a document."""
    reader = next((kind for suffix, kind in READERS.items() if suffix in Path(files[0]).suffixes), None)
    if reader is None:
        sys.exit(f"corpus {name} is in {files[0]}; files must end in {', '.join(READERS)}, or these with .gz or .zst.")
    options = {"sample_by": "document"} if reader == "text" else {}
    documents = load_dataset(reader, data_files=files, split="train", **options)

    def pack(batch: dict) -> dict:
        stream = []
        for tokens in tokenizer(batch["text"], add_special_tokens=False)["input_ids"]:
            stream += tokens if end is None else [*tokens, end]
        rows = [stream[i : i + length] for i in range(0, len(stream) - length + 1, length)]
        return {"input_ids": rows, "labels": rows}

    sequences = documents.map(pack, batched=True, batch_size=10_000, remove_columns=documents.column_names)
    if not len(sequences):
        sys.exit(f"corpus {name} has fewer than {length} tokens, not one sequence; leave it out, or add to it.")
    return sequences


def mixed(corpora: list[Dataset], probabilities: list[float], seed: int, stopping: str, examples: int) -> Dataset:
    """The examples of the run. No sequence of a corpus comes again before all the others have come."""
    shuffled = [corpus.shuffle(seed=seed + i) for i, corpus in enumerate(corpora)]
    train = interleave_datasets(shuffled, probabilities=probabilities, seed=seed, stopping_strategy=stopping)
    # Cut here: the Trainer shuffles what it is given, and would otherwise draw from many passes at once.
    return train.select(range(min(examples, len(train))))


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    data, settings = config["data"], config["training_arguments"]
    settings |= micro_batches(data["batch_sequences"], int(os.environ.get("WORLD_SIZE", "1")))
    (arguments,) = HfArgumentParser(TrainingArguments).parse_dict(settings)

    if data["tokenizer"] is None:
        sys.exit(f"{path} names no tokenizer; set data.tokenizer to a tokenizer.json, a folder or a name on the Hub.")
    if data["tokenizer"].endswith(".json"):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=data["tokenizer"])
    else:
        tokenizer = AutoTokenizer.from_pretrained(data["tokenizer"])
    known = tokenizer.get_vocab()
    end = tokenizer.eos_token_id
    if end is None:
        end = next((known[token] for token in END_OF_TEXT if token in known), None)

    corpora, length = data["corpora"], data["sequence_length"]
    with arguments.main_process_first():
        train = mixed(
            [packed(name, corpus["files"], tokenizer, end, length) for name, corpus in corpora.items()],
            [corpus["probability"] for corpus in corpora.values()],
            data["seed"],
            data["stopping_strategy"],
            arguments.max_steps * data["batch_sequences"],
        )
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **config["model"]))
    DecayingTrainer(model=model, args=arguments, train_dataset=train).train()
    if arguments.should_save:
        model.save_pretrained(arguments.output_dir)


if __name__ == "__main__":
    main(sys.argv[1])
'''
