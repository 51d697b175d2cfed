"""The confidence of calls: the probability of the least likely choice in each. Only tokens count
that the sampler chose among several: forced ones say nothing about the model. Probabilities of
longer tokens that spell the same text are added. It is the minimum, not the product: a long text is
not less certain for its choices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from constrained.decode.token_trace import TokenSource, TracedToken
from constrained.model.trace.places import TokenPlace, TracedPart
from grammars.schema.pointers import split_pointer
from grammars.turn import CallConfidence

MAX_COMPARED = 16  # the maximum number of tokens that are compared with one longer token


def measure_confidence(
    tokens: Sequence[TracedToken], places: Sequence[TokenPlace | None]
) -> list[CallConfidence]:
    """Measures the confidence of each call; a token without a place is not in the turn."""
    name_ends: dict[int, int] = {}  # the index of the last token of the name of each call
    for index, place in enumerate(places):
        if place is not None and place.call is not None and place.part is TracedPart.TOOL_NAME:
            name_ends[place.call] = index
    calls: list[_LeastLikely] = []
    opening = 1.0  # of the tokens after the last call or text, which may open the next call
    for index, (token, place) in enumerate(zip(tokens, places, strict=True)):
        if place is None:
            continue
        probability = _read(token, tokens[index : index + MAX_COMPARED])
        if place.call is None:
            is_opening = place.part is TracedPart.STRUCTURE
            opening = min(opening, probability) if is_opening else 1.0
        elif place.call == len(calls):  # the first token of a call
            calls.append(_LeastLikely(name=min(opening, probability)))
            opening = 1.0
        else:
            is_name = index <= name_ends.get(place.call, -1)
            calls[place.call].note(probability, place, is_name=is_name)
    return [call.sum_up() for call in calls]


@dataclass
class _LeastLikely:
    """The least probabilities of the name, of each argument, and around the values."""

    name: float
    arguments: dict[str, float] = field(default_factory=dict[str, float])
    rest: float = 1.0

    def note(self, probability: float, place: TokenPlace, *, is_name: bool) -> None:
        if is_name:
            self.name = min(self.name, probability)
        elif place.pointer:
            argument = split_pointer(place.pointer)[0]
            self.arguments[argument] = min(self.arguments.get(argument, 1.0), probability)
        else:
            self.rest = min(self.rest, probability)

    def sum_up(self) -> CallConfidence:
        lowest = min(self.name, self.rest, *self.arguments.values())
        return CallConfidence(lowest, self.name, self.arguments)


def measure_call_probability(
    tokens: Sequence[TracedToken], places: Sequence[TokenPlace | None]
) -> float | None:
    """Returns how likely the model found a call at its first one or, without calls, where its
    output begins; None: none could begin there. Several tokens may open a call, so it is the
    product of their shares, as far as the turn goes along with them."""
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
    """Returns the probability of a token among the allowed ones, with longer ones of the same
    text."""
    if token.source is not TokenSource.DRAWN or token.masked_probability is None:
        return 1.0
    text = b"".join(one.text for one in following if not one.is_discarded)
    probability = token.masked_probability
    for rival in token.rivals:
        if len(rival.text) > len(token.text) and text.startswith(rival.text):
            probability += rival.probability
    return min(1.0, probability)
