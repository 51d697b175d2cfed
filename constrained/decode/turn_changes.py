"""Changes of a turn that is under way: it goes back, or goes on with another grammar."""

from collections.abc import Sequence

from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.request import DecodeInput
from constrained.decode.transcript import SAID
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_part import TurnProgress
from grammars.wire.envelopes import ForeignCall


def rewind(turn: RunningTurn, count: int, *, then: Sequence[int] = ()) -> bool:
    """Cuts a turn that has a grammar to its first tokens.

    Args:
        then: tokens that will be taken after them, and need an ending, too.

    Returns False if too few tokens would be left, or the model cannot forget tokens. Then nothing
    has changed.
    """
    head = turn.transcript.cut(count)
    matcher = turn.grammars.replay(head.tokens)
    limit = _find_limit(turn, count)
    reserve = _make_reserve(turn.grammars.find(count), limit)
    if reserve is not None:
        after = matcher.fork()
        for token in then:
            after.commit(token)
        if not _fits(reserve, head.measure(after, then), limit):
            return False
    elif count + len(then) >= limit:
        return False
    if not turn.input.rewind(head.tokens):
        return False
    turn.cut_to(head)
    turn.grammars.cut(count)
    turn.matcher, turn.limit = matcher, limit
    _rewind_parts(turn, count, reserve)
    return True


def go_on(
    turn: RunningTurn,
    rest: DecodeInput,
    found: ForeignCall,
    *,
    start: int,
    keep: int,
    then: Sequence[int] = (),
) -> bool:
    """Continues a turn with another grammar, in the envelope of a call.

    Args:
        start: the number of tokens before `rest`; the grammar takes those after them.
        then: those that come next, in place of the others.

    Returns False if too few tokens are left for the call, or the model cannot forget tokens. Then
    nothing has changed.
    """
    assert rest.matcher is not None
    matcher = rest.matcher.fork()
    for token in turn.tokens[start:keep]:
        matcher.commit(token)
    count = keep + len(then)
    limit = _find_limit(turn, keep)
    reserve = _make_reserve(rest, limit)
    text = turn.vocabulary.text(turn.tokens[start:keep])
    if reserve is not None and not _fits(reserve, TurnProgress(matcher, count, text), limit):
        return False
    if keep < turn.count:
        head = turn.transcript.cut(keep)
        if not turn.input.rewind(head.tokens):
            return False
        turn.cut_to(head)
    turn.grammars.add(rest, start=start, since=count)
    turn.matcher, turn.limit = matcher, limit
    if rest.make_endless_values is not None:
        turn.parts.put(rest.make_endless_values())
    _rewind_parts(turn, keep, reserve)
    for token in then:
        turn.append(token, SAID)
    turn.send(turn.transcript.go_on(found, start=start, drops_rest=start == count))
    return True


def _find_limit(turn: RunningTurn, count: int) -> int:
    discarded = turn.discarded + turn.count - count
    return min(turn.request.options.max_tokens - discarded, turn.room)


def _make_reserve(turn: DecodeInput, limit: int) -> CompletionReserve | None:
    return None if turn.make_reserve is None else turn.make_reserve(limit)


def _fits(reserve: CompletionReserve, progress: TurnProgress, limit: int) -> bool:
    shortest = reserve.start(progress)
    return shortest is None or shortest <= limit


def _rewind_parts(turn: RunningTurn, count: int, reserve: CompletionReserve | None) -> None:
    turn.reserve = reserve
    if reserve is not None:
        turn.parts.put(reserve)
    for rewind_part in turn.parts.rewind:
        rewind_part(count)
    turn.recall()
