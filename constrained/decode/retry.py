"""Going back to where something that does not fit began, to write it once more."""

from dataclasses import dataclass

from constrained.decode.completion_reserve import Reserve
from constrained.decode.limits import find_limit
from constrained.decode.request import Request
from constrained.decode.retry_ban import Deviation
from constrained.decode.transcript import Transcript
from constrained.kv.sequences import Sequences
from constrained.mask import Matcher


@dataclass(frozen=True)
class Retry:
    """What a turn goes on with.

    Args:
        head: what stays of it.
        matcher: behind the head.
        discarded: how many tokens were written in vain.
        limit: how many tokens the turn may have now.
        reserve: that of so many tokens.
        deviation: sees to it that not the same is written again.
    """

    head: Transcript
    matcher: Matcher
    discarded: int
    limit: int
    reserve: Reserve | None
    deviation: Deviation


def plan_retry(
    sequences: Sequences,
    request: Request,
    start: Matcher | None,
    read: Transcript,
    place: int | None,
    discarded: int,
) -> Retry | None:
    """A turn that goes back; None if too few tokens would be left, or nothing holds it.

    Args:
        sequences: of the engine.
        request: what is generated.
        start: the matcher at the beginning of the turn.
        read: the turn so far.
        place: how many of its tokens stay; None: that is not known.
        discarded: how many tokens were written in vain before.
    """
    if start is None or place is None or place >= len(read.tokens):
        return None
    head, matcher = read.head(place), start.fork()
    for token in head.tokens:
        matcher.commit(token)
    spent = discarded + len(read.tokens) - place
    limit = find_limit(sequences, request, spent)
    reserve = request.reserve(limit) if request.reserve else None
    shortest = reserve.start(head.place(matcher)) if reserve else None
    if (place + 1 if shortest is None else shortest) > limit:
        return None
    since = max(len(head.data), len(request.prefix.rest))  # what was given stays
    deviation = Deviation(bytes(read.data), since, sequences.vocabulary)
    return Retry(head, matcher, spent, limit, reserve, deviation)
