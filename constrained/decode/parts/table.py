"""The table of the parts of a turn. A rule that is not listed here does not exist for any turn."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from constrained.decode.drafts.prompt_lookup import Speculation
from constrained.decode.parts.ends import LastCall, RepeatedContent, StopTexts
from constrained.decode.parts.foreign_calls import ForeignCalls
from constrained.decode.parts.retry import Retry
from constrained.decode.token_healing import TokenHealing
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_part import TurnPart, TurnParts
from constrained.prompt.job import NO_LIMITS

MakePart: TypeAlias = Callable[[RunningTurn], TurnPart | None]
"""Makes a part of a turn; returns None if the request does not need it."""


def _make_repeated_content(turn: RunningTurn) -> TurnPart | None:
    max_repetition = turn.request.turn.max_content_repetition
    if max_repetition is None or turn.request.options.ignore_eos:
        return None
    return RepeatedContent(turn, max_repetition)


def _make_healing(turn: RunningTurn) -> TurnPart | None:
    prefill = turn.request.turn.prefill
    if not prefill.rest and not prefill.marker_suffixes:
        return None
    return TokenHealing(prefill, turn.vocabulary)


def _find_budget(turn: RunningTurn) -> TurnPart | None:
    return turn.request.turn.budget


def _make_retry(turn: RunningTurn) -> TurnPart | None:
    given = turn.request.turn
    if given.checked_schemas.is_empty and not given.call_limits.excluded:
        return None
    return Retry(turn)


def _make_last_call(turn: RunningTurn) -> TurnPart | None:
    return None if turn.request.turn.call_limits == NO_LIMITS else LastCall(turn)


def _make_stop_texts(turn: RunningTurn) -> TurnPart | None:
    return StopTexts(turn) if turn.request.options.stops else None


def _make_endless_values(turn: RunningTurn) -> TurnPart | None:
    make = turn.request.turn.make_endless_values
    return None if make is None or turn.matcher is None else make()


def _find_reserve(turn: RunningTurn) -> TurnPart | None:
    return turn.reserve


def _make_speculation(turn: RunningTurn) -> TurnPart | None:
    if not turn.request.options.draft or turn.request.options.logprobs is not None:
        return None
    return Speculation(turn.input.prompt, turn.vocabulary)


def _make_foreign_calls(turn: RunningTurn) -> TurnPart | None:
    rules = turn.request.turn.envelopes
    return None if rules is None else ForeignCalls(turn, rules)


# In the order in which they steer. The last one reacts first: a stop text ends the turn whatever
# else the text says.
DECODED: Sequence[MakePart] = (
    _make_repeated_content,
    _make_healing,
    _find_budget,
    _make_retry,
    _make_endless_values,
    _find_reserve,
    _make_speculation,
    _make_foreign_calls,
    _make_last_call,
    _make_stop_texts,
)
# Another process samples the tokens: it cannot be steered, and cannot go back.
SAMPLED_ELSEWHERE: Sequence[MakePart] = (
    _make_repeated_content,
    _make_retry,
    _make_endless_values,
    _find_reserve,
    _make_last_call,
    _make_stop_texts,
)


def make_parts(turn: RunningTurn, makers: Sequence[MakePart]) -> TurnParts:
    """Makes the parts of a turn that its request needs."""
    made = [make(turn) for make in makers]
    return TurnParts([part for part in made if part is not None])
