"""The confidence of calls: the probability of the least likely choice in each of them.

Only tokens count that the sampler chose among several allowed ones, with their probabilities among
these: forced tokens say nothing about the model. Longer tokens that spell the same text are no
alternative, so their probabilities are added. The confidence is the minimum, not the product: a
long text has more choices, but is not less certain for that.
"""

import math
from collections.abc import Sequence

from constrained.decode.token_trace import TokenSource, TracedToken
from constrained.model.trace.places import TokenPlace, TracedPart
from grammars.schema.pointers import split_pointer
from grammars.turn import CallConfidence

MAX_COMPARED = 16  # the maximum number of tokens that are compared with one longer token


def measure_confidence(
    tokens: Sequence[TracedToken], places: Sequence[TokenPlace | None]
) -> list[CallConfidence]:
    """Measures the confidence of each call of a turn, in order.

    Args:
        tokens: the traced tokens of the turn.
        places: the place of each token; None: the token is not part of the turn.
    """
    names: list[float] = []
    arguments: list[dict[str, float]] = []
    rests: list[float] = []
    opening = 1.0  # of the tokens after the last call or text, which may open the next call
    name_ends: dict[int, int] = {}  # the index of the last token of the name of each call
    for index, place in enumerate(places):
        if place is not None and place.call is not None and place.part is TracedPart.TOOL_NAME:
            name_ends[place.call] = index
    for index, (token, place) in enumerate(zip(tokens, places, strict=True)):
        if place is None:
            continue
        sureness = _read(token, tokens[index : index + MAX_COMPARED])
        if place.part is not TracedPart.STRUCTURE and place.call is None:
            opening = 1.0
        elif place.call is None:
            opening = min(opening, sureness)
        elif place.call == len(names):
            names.append(min(opening, sureness))
            arguments.append({})
            rests.append(1.0)
            opening = 1.0
        elif index <= name_ends.get(place.call, -1):
            names[place.call] = min(names[place.call], sureness)
        elif place.pointer:
            name = _read_name(place.pointer)
            values = arguments[place.call]
            values[name] = min(values.get(name, 1.0), sureness)
        else:
            rests[place.call] = min(rests[place.call], sureness)
    found: list[CallConfidence] = []
    for name, values, rest in zip(names, arguments, rests, strict=True):
        found.append(CallConfidence(min(name, rest, *values.values()), name, values))
    return found


def measure_call_probability(
    tokens: Sequence[TracedToken], places: Sequence[TokenPlace | None]
) -> float | None:
    """Returns how likely the model found a call where the turn has its first one or, if it has
    none, where its output begins; None if no call could begin there.

    Several tokens may open a call, and content may begin as a call does: so it is the product of
    the shares of those tokens, as far as the turn goes along with them.

    Args:
        tokens, places: as of `measure_confidence`.
    """
    first = None
    for index, place in enumerate(places):
        if place is not None and place.call == 0:
            first = index
            break
    shares: list[float] = []
    for token, place in zip(tokens[first or 0 :], places[first or 0 :], strict=True):
        if place is None or token.source is TokenSource.FORCED:
            continue
        if token.call_share is None:
            if shares:
                break
            continue
        if not shares and not token.is_end and not token.text.strip():
            continue  # white space in front of either
        shares.append(token.call_share)
        if not token.is_opening:
            break
    if shares:
        return math.prod(shares)
    return None if first is None else 1.0


def _read(token: TracedToken, following: Sequence[TracedToken]) -> float:
    """Returns the probability of a token among those that were allowed, if there was a choice; with
    that of longer ones that spell the same as it and the tokens after it.

    Args:
        token: that was written.
        following: it, and those after it.
    """
    if token.source is not TokenSource.DRAWN or token.masked_probability is None:
        return 1.0
    text = b"".join(one.text for one in following if not one.is_discarded)
    sureness = token.masked_probability
    for rival in token.rivals:
        if len(rival.text) > len(token.text) and text.startswith(rival.text):
            sureness += rival.probability
    return min(1.0, sureness)


def _read_name(pointer: str) -> str:
    """Returns the argument that a pointer leads into."""
    return split_pointer(pointer)[0]
