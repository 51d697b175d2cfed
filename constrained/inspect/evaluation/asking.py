"""What is asked and what comes back: questions and agent tasks go through the same seam."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class WrittenCall:
    """A call of an answer: a name, and arguments that may be anything."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class ModelAnswer:
    """The answer to one request.

    Attributes:
        text: what goes back into the conversation beside the calls.
        tokens: that were generated.
        seconds: from the request to the whole answer, its prompt and grammar included.
        cut: the tokens ran out.
        error: why there is no answer; "" if there is one.
        confidence: the lowest probability of a choice in its calls; None: not measured, or no call.
    """

    calls: tuple[WrittenCall, ...] = ()
    text: str = ""
    tokens: int = 0
    seconds: float = 0.0
    cut: bool = False
    error: str = ""
    confidence: float | None = None


Messages: TypeAlias = Sequence[Mapping[str, Any]]
Tools: TypeAlias = Sequence[Mapping[str, Any]]
Asker: TypeAlias = Callable[[Messages, Tools], ModelAnswer]
"""Asks for one turn: a conversation, and tools in OpenAI's form."""
