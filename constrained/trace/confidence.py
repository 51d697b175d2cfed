"""How sure the model was of its calls: the least likely choice in each of them.

Only tokens count that the sampler drew among several allowed ones, each with its probability among
these: what the grammar forces says nothing about the model. The lowest one counts, not the product:
a long text has many choices, and is not less certain for that.
"""

from collections.abc import Sequence

from constrained.decode.token_trace import TokenSource, TracedToken
from constrained.trace.places import TokenPlace, TracedPart
from grammars.turn import CallConfidence


def measure_confidence(
    tokens: Sequence[TracedToken], places: Sequence[TokenPlace | None]
) -> list[CallConfidence]:
    """The confidence of each call of a turn, in order.

    Args:
        tokens: of the turn, traced.
        places: of each of them; None for one that is no part of the turn.
    """
    names: list[float] = []
    arguments: list[dict[str, float]] = []
    rests: list[float] = []
    opening = 1.0  # of the tokens behind the last call or text, which may open the next call
    for token, place in zip(tokens, places, strict=True):
        if place is None:
            continue
        sureness = _read(token)
        if place.part is not TracedPart.STRUCTURE and place.call is None:
            opening = 1.0
        elif place.call is None:
            opening = min(opening, sureness)
        elif place.call == len(names):  # its name is complete
            names.append(min(opening, sureness))
            arguments.append({})
            rests.append(1.0)
            opening = 1.0
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


def _read(token: TracedToken) -> float:
    """The probability of a token among those that were allowed, if there was a choice."""
    if token.source is not TokenSource.DRAWN or token.masked_probability is None:
        return 1.0
    return token.masked_probability


def _read_name(pointer: str) -> str:
    """The argument that a pointer leads into."""
    return pointer.split("/")[1].replace("~1", "/").replace("~0", "~")
