"""The table of the parts of a turn. A rule that is not listed here does not exist for any turn."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from constrained.decode.drafts.speculation import Speculation
from constrained.decode.foreign_calls import ForeignCalls
from constrained.decode.retry import Retry
from constrained.decode.token_healing import TokenHealing
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_ends import LastCall, RepeatedContent, StopTexts
from constrained.decode.turn_part import TurnPart, TurnParts

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
    Retry,
    _make_endless_values,
    _find_reserve,
    _make_speculation,
    _make_foreign_calls,
    LastCall,
    StopTexts,
)
# Another process samples the tokens: it cannot be steered, and cannot go back.
SAMPLED_ELSEWHERE: Sequence[MakePart] = (
    _make_repeated_content,
    Retry,
    _make_endless_values,
    _find_reserve,
    LastCall,
    StopTexts,
)


def make_parts(turn: RunningTurn, makers: Sequence[MakePart]) -> TurnParts:
    """Makes the parts of a turn that its request needs."""
    made = [make(turn) for make in makers]
    return TurnParts([part for part in made if part is not None])
