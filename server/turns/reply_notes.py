"""The field `constrained` of replies, which no dialect knows: what was not done as it was asked."""

from typing import Any, NotRequired

from typing_extensions import TypedDict


class RefusedTool(TypedDict):
    """A tool that was not offered, since its schema cannot be enforced."""

    name: str
    pointer: str
    """The place in the request."""
    keyword: str
    reason: str
    hint: str | None


class LeftOutTool(TypedDict):
    """A tool that nobody runs here."""

    type: str
    where: str
    """The place in the request."""


class ReasoningNote(TypedDict):
    """What became of the wish for reasoning."""

    think: NotRequired[str]
    budget: NotRequired[int]
    """Tokens, at most."""
    ignored: NotRequired[bool]
    """The model knows no reasoning."""


class RepeatedCall(TypedDict):
    """A call that the conversation has again and again."""

    name: str
    count: int


class EndedValueNote(TypedDict):
    """A value that repeated itself, and was ended."""

    where: str
    """JSON pointer into the reply."""
    tokens: int
    """Of the turn, before the end."""
    choice: NotRequired[int]
    """Of several choices, which one."""


class RemoteEngineNote(TypedDict):
    """The engine on another machine that has drawn the tokens."""

    engine: str
    lacks: list[str]
    """What it cannot do, and was not done."""


class CallConfidenceNote(TypedDict):
    """How sure the model was of a call, from 0 to 1: the lowest probability of a choice, among what
    the mask allowed. null: nothing was chosen there."""

    lowest: float | None
    """Of the whole call."""
    name: float | None
    """Of its name."""
    arguments: dict[str, float | None]
    """Of each argument."""


class MeasuredCall(TypedDict):
    """A call with how sure the model was of it."""

    name: str
    arguments: dict[str, Any]
    confidence: NotRequired[CallConfidenceNote]


class CandidateNote(TypedDict):
    """A turn that `best_of` chose among."""

    likelihood: float
    """The probability of its names and listed values, among what the mask allowed."""
    calls: list[MeasuredCall]


class ReplyNotes(TypedDict):
    """What was not done as it was asked, and with `--show-grammar` what the mask held."""

    refused_tools: NotRequired[list[RefusedTool]]
    skipped_tools: NotRequired[list[LeftOutTool]]
    ignored_fields: NotRequired[list[str]]
    """Fields of the request that the server does not know."""
    repeated_calls: NotRequired[list[RepeatedCall]]
    ended_values: NotRequired[list[EndedValueNote]]
    call_probability: NotRequired[float]
    """How likely a call was, from 0 to 1, at the place of the first one, or else where the output
    begins; where `min_confidence`, `best_of` or `trace` asks for it, and a call could be."""
    confidence: NotRequired[list[MeasuredCall]]
    """The calls of the reply; where `min_confidence`, `best_of` or `trace` asks for it."""
    unsure_calls: NotRequired[list[MeasuredCall]]
    """Calls that the model was not sure of, in whose place the reply was written (`unsure`)."""
    candidates: NotRequired[list[CandidateNote]]
    """The turns that `best_of` chose among, the reply first."""
    remote: NotRequired[RemoteEngineNote]
    reasoning: NotRequired[ReasoningNote]
    format: NotRequired[str]
    """The format of calls."""
    start: NotRequired[str]
    """Where the prompt leaves the turn: plain, inside a reasoning block, or behind one."""
    weakened: NotRequired[dict[str, Any]]
    """By tool, the keywords of its schema that the mask does not hold as they stand."""
    grammar: NotRequired[str]
