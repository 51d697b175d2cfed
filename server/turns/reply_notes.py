"""The field `constrained` of replies, our extension of all dialects: where the reply differs from
the request."""

from typing import Any, Literal, NotRequired

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
    """A tool that this server cannot execute."""

    type: str
    where: str
    """The place in the request."""


class ReasoningNote(TypedDict):
    """How the reasoning differs from the request."""

    think: NotRequired[str]
    budget: NotRequired[int]
    """The maximum number of tokens."""
    ignored: NotRequired[bool]
    """The model has no reasoning."""


class RepeatedCall(TypedDict):
    """A call that the conversation repeats."""

    name: str
    count: int


class EndedValueNote(TypedDict):
    """A value that repeated itself, and was ended, or content that did, and ended the reply."""

    where: str
    """JSON pointer into the reply."""
    tokens: int
    """Tokens of the turn before the end of the value."""
    choice: NotRequired[int]
    """The number of the choice, if there are several."""


class RemoteEngineNote(TypedDict):
    """The remote engine that has sampled the tokens."""

    engine: str
    lacks: list[str]
    """The abilities that the engine lacks, so the reply was made without them."""


class EnvelopeNote(TypedDict):
    """A form other than the model's own in which it began a call, which was delivered."""

    choice: NotRequired[int]
    kind: Literal["fence", "tag", "list", "object", "function"]


class CallConfidenceNote(TypedDict):
    """The model's confidence in a call, from 0 to 1: the lowest probability of a choice, among what
    the mask allowed. null: nothing was chosen there."""

    lowest: float | None
    """Of the whole call."""
    name: float | None
    """Of its name."""
    arguments: dict[str, float | None]
    """Of each argument."""


class MeasuredCall(TypedDict):
    """A call with the model's confidence."""

    name: str
    arguments: dict[str, Any]
    confidence: NotRequired[CallConfidenceNote]


class CandidateNote(TypedDict):
    """A turn that `best_of` chose among."""

    likelihood: float
    """The probability of its names and listed values, among what the mask allowed."""
    calls: list[MeasuredCall]


class ReplyNotes(TypedDict):
    """Where the reply differs from the request; with `--show-grammar`, also the grammar."""

    refused_tools: NotRequired[list[RefusedTool]]
    skipped_tools: NotRequired[list[LeftOutTool]]
    ignored_fields: NotRequired[list[str]]
    """Fields of the request that the server does not know."""
    message_forms: NotRequired[list[str]]
    """In which forms messages are in the prompt, since the chat template loses, moves or refuses
    them as they are."""
    dropped_messages: NotRequired[int]
    """How many of the oldest messages are not in the prompt, which would be too long with them."""
    repeated_calls: NotRequired[list[RepeatedCall]]
    ended_values: NotRequired[list[EndedValueNote]]
    envelopes: NotRequired[list[EnvelopeNote]]
    no_call: NotRequired[str]
    """Why the reply may have no call and what to do; present if calls are optional, the prompt
    explains them in the generic format, and neither conversation nor reply has one."""
    call_probability: NotRequired[float]
    """The probability of a call, from 0 to 1, at the place of the first call, or else at the
    beginning of the output; present if `min_confidence`, `best_of` or `trace` asks for it and a
    call is possible."""
    confidence: NotRequired[list[MeasuredCall]]
    """The calls of the reply; present if `min_confidence`, `best_of` or `trace` asks for it."""
    unsure_calls: NotRequired[list[MeasuredCall]]
    """Calls that the model was unsure of, which this reply replaces (`unsure`)."""
    candidates: NotRequired[list[CandidateNote]]
    """The turns that `best_of` chose among, the reply first."""
    remote: NotRequired[RemoteEngineNote]
    reasoning: NotRequired[ReasoningNote]
    format: NotRequired[str]
    """The format of calls."""
    start: NotRequired[str]
    """Where the prompt leaves the turn: plain, inside a reasoning block, or after one."""
    weakened: NotRequired[dict[str, Any]]
    """By tool, the keywords of its schema that the mask does not enforce exactly."""
    grammar: NotRequired[str]
