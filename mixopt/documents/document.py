"""A document, and how it is taken out of a record of a file or dataset."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mixopt.errors import StudyError

_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can hold one alone; UTF-8, and so a tokenizer, cannot


@dataclass(frozen=True)
class Document:
    """One text and its identifier; what stands before '#' in `id` is the document that a part belongs to."""

    id: str
    text: str

    @property
    def key(self) -> str:
        """The document that this text is, or is a part of; a split keeps texts of one key together.

        >>> Document("emma/chapter-12#3", "It was a delightful visit").key
        'emma/chapter-12'
        """
        return self.id.partition("#")[0]


@dataclass(frozen=True)
class Fields:
    """The names under which a record keeps its text and its identifier."""

    text: str = "text"
    id: str = "id"

    def document(self, record: Mapping[str, object], place: str, otherwise: str) -> Document:
        """The document in `record`; `place` is said in errors, `otherwise` is the id of a record without one."""
        self.check(record, place)
        text = record[self.text]
        if not isinstance(text, str):
            kind = type(text).__name__
            raise StudyError(f"{place}: field {self.text!r} is of type {kind}; text must be a string.")
        if _SURROGATE.search(text):
            raise StudyError(
                f"{place}: field {self.text!r} holds half of a character pair (U+D800 to U+DFFF). Remove it."
            )
        identifier = record.get(self.id)
        return Document(otherwise if identifier is None else str(identifier), text)

    def check(self, names: Iterable[str], place: str) -> None:
        """Refuse a record whose field `names` lack the text."""
        if self.text not in (names := tuple(names)):
            has = ", ".join(names) or "no fields"
            raise StudyError(f"{place} has no field {self.text!r}; it has {has}. Name the field that holds the text.")
