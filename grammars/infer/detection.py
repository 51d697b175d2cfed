"""What is found of a chat template: its format with the evidence, or why none is known."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from grammars.errors import DetectError
from grammars.wire.format import Format

T = TypeVar("T")


class Origin(StrEnum):
    INFERRED = "inferred"
    REGISTERED = "registered"
    SHOWN = "shown"
    GENERIC = "generic"
    CHOSEN = "chosen"


@dataclass(frozen=True)
class Evidence:
    """A rendered text, and what was inferred from it."""

    probe: str  # what is special about the conversation
    text: str  # the assistant's turn, as the template writes it
    conclusion: str


@dataclass(frozen=True)
class Detection:
    """The format of a template, its origin, and the reason."""

    format: Format
    origin: Origin
    evidence: tuple[Evidence, ...]
    slip: str = ""  # what is malformed in the calls that the template itself writes
    # The template writes thoughts in no known way: the format has none, and prompts have to leave
    # them out.
    drops_thoughts: bool = False


@dataclass(frozen=True)
class NoFormat:
    """Why no format is found in one way."""

    message: str


def attempt(find: Callable[[], T]) -> T | NoFormat:
    """Returns what is found, or why nothing is: a reader that comes upon something unknown raises a
    `DetectError` from any depth, and what chooses between readers compares values."""
    try:
        return find()
    except DetectError as error:
        return NoFormat(error.message)
