"""A published table found and verified, and what is printed of it."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path


class MissingTable(FileNotFoundError):
    """The table is not at hand; the sentence says where it was looked for."""


@dataclass(frozen=True)
class Row:
    """One figure of one table: published, by the published protocol here, and ours.

    `reach` is what ours should come to; `higher` whether more is better. `coverage` is the share of held-out rows
    inside their 90 % interval, `seconds` the CPU time of our fit. NaN where a figure does not exist.
    """

    table: str
    quantity: str
    law: str
    ours: float
    reach: float = float("nan")
    published: float = float("nan")
    reproduced: float = float("nan")
    higher: bool = False
    coverage: float = float("nan")
    seconds: float = float("nan")
    note: str = ""

    @property
    def reached(self) -> bool:
        """Whether ours is at least as good as `reach`; true where nothing was asked."""
        return not (self.ours < self.reach if self.higher else self.ours > self.reach)


def reference(path: str, sha256: str) -> Path:
    """Path of a table below $MIXOPT_REFERENCE_DATA, its content verified.

    Raises
    ------
    MissingTable
        The variable is not set, or the table is not there.
    ValueError
        The file has another content than the figures are about.
    """
    folder = os.environ.get("MIXOPT_REFERENCE_DATA")
    if not folder:
        raise MissingTable(f"Set MIXOPT_REFERENCE_DATA to the folder of published tables to check {path}.")
    found = Path(folder) / path
    if not found.is_file():
        raise MissingTable(f"{path} is not below MIXOPT_REFERENCE_DATA ({folder}).")
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    if digest != sha256:
        raise ValueError(f"{path} has SHA-256 {digest}; these figures are about {sha256}.")
    return found
