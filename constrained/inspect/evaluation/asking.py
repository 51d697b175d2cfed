"""What is asked and what comes back: questions and agent tasks go through the same seam."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias


class WayName(StrEnum):
    """How calls come about."""

    # written without a mask, and read as a strict parser of the model's format reads it
    FREE = "free"
    READ = "free, read"  # the same text, read by this library, which also knows common deviations
    MASKED = "masked"  # written with the mask
    SERVED = "server"  # what a server answered; how is its own affair


CHOICES = ("auto", "required")
"""The values of `tool_choice` that are asked with; a free text has none."""
REQUIRED = "required"


@dataclass(frozen=True)
class AskedWay:
    """Who is asked, and how."""

    subject: str  # a file with its type of KV cache, or a server
    name: WayName
    choice: str  # `tool_choice`; "" for a free text, which does not depend on it

    def __str__(self) -> str:
        return f"{self.name}, {self.choice}" if self.choice else str(self.name)

    @property
    def may_decline(self) -> bool:
        """Whether the answer may have no call."""
        return self.choice != REQUIRED


@dataclass(frozen=True)
class WrittenCall:
    """A call of an answer: a name, and arguments that may be anything."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class ModelAnswer:
    """The answer to one request."""

    calls: tuple[WrittenCall, ...] = ()
    text: str = ""  # what goes back into the conversation beside the calls
    tokens: int = 0  # that were generated
    seconds: float = 0.0  # from the request to the whole answer, its prompt and grammar included
    cut: bool = False  # the tokens ran out
    error: str = ""  # why there is no answer; "" if there is one
    # the lowest probability of a choice in its calls; None: not measured, or no call
    confidence: float | None = None


Messages: TypeAlias = Sequence[Mapping[str, Any]]
Tools: TypeAlias = Sequence[Mapping[str, Any]]
Asker: TypeAlias = Callable[[Messages, Tools], ModelAnswer]
"""Asks for one turn: a conversation, and tools in OpenAI's form."""
