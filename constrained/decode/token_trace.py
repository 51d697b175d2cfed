"""The trace of a turn: what decided about each of its tokens, noted while it is decoded.

Nothing of the turn changes: forced and drafted tokens stay so. Of a token that the model was not
asked about, no probability is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from constrained.deadline import Clock
from constrained.vocabulary.vocabulary import Vocabulary

NEGLIGIBLE = 12.0  # logarithms below the best: less than a 150,000th of its probability


class TokenSource(StrEnum):
    """What decided about a token."""

    DRAWN = "drawn"
    """The sampler, among those that were allowed."""
    ONLY = "only"
    """The mask: it left no other."""
    FORCED = "forced"
    """The grammar: the model was not asked."""
    INSERTED = "inserted"
    """A rule beside the grammar, such as a budget that is spent: the model was not asked."""
    WRITTEN = "written"
    """Another process, which has ended: what it knew of the token is lost."""


@dataclass(frozen=True)
class Alternative:
    """A token that the model found likely.

    Args:
        token: its id.
        text: the bytes that it spells.
        probability: before the mask.
        is_allowed: it could have been drawn.
    """

    token: int
    text: bytes
    probability: float
    is_allowed: bool


@dataclass(frozen=True)
class Observation:
    """What was seen of the position of a token.

    Args:
        allowed: how many tokens could have been drawn.
        mass: the probability of these, before the mask, from 0 to 1.
        logits: of the model, as natural logarithms of probabilities up to a constant.
        log_total: that constant.
        alternatives: the most likely tokens, best first.
        steered_by: the rules beside the grammar that forbade something here.
        rivals: see `TracedToken`.
        call_share: see `TracedToken`.
        opening: the tokens that it is the share of.
    """

    allowed: int
    mass: float
    logits: np.ndarray
    log_total: float
    alternatives: tuple[Alternative, ...]
    steered_by: tuple[str, ...] = ()
    rivals: tuple[Alternative, ...] = ()
    call_share: float | None = None
    opening: frozenset[int] = frozenset()

    def find_probability(self, token: int) -> float:
        """Of a token, before the mask."""
        return float(np.exp(self.logits[token] - self.log_total))


@dataclass(frozen=True)
class TracedToken:
    """A token of a turn, and what decided about it.

    Args:
        token: its id.
        text: the bytes that it spells.
        source: what decided.
        seconds: since the turn was admitted.
        is_drafted: it was decoded as part of a draft, which it agreed with.
        is_end: it ends the turn, and is no part of its text.
        is_discarded: the turn went back behind it, and does not have it.
        steered_by: the rules beside the grammar that forbade something here.
        allowed: how many tokens could have been drawn; None: nobody looked.
        probability: of the token, before the mask; None: the model was not asked.
        masked_probability: of the token among those that were allowed, at temperature 1.
        alternatives: the most likely tokens here, before the mask, best first.
        rivals: the most likely of those that were allowed, this token among them, best first; each
            with its probability among these.
        call_share: the probability, among what was allowed, of tokens that a call begins with here,
            goes on to open with; None: no call can open here, or nobody looked.
        is_opening: the token is one of those.
    """

    token: int
    text: bytes
    source: TokenSource
    seconds: float
    is_drafted: bool = False
    is_end: bool = False
    is_discarded: bool = False
    steered_by: tuple[str, ...] = ()
    allowed: int | None = None
    probability: float | None = None
    masked_probability: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    rivals: tuple[Alternative, ...] = ()
    call_share: float | None = None
    is_opening: bool = False

    @property
    def wanted(self) -> Alternative | None:
        """The token that the model would have preferred, if that was forbidden."""
        if self.alternatives and not self.alternatives[0].is_allowed:
            return self.alternatives[0]
        return None


class Position:
    """The logits of one position, looked at before and after tokens are forbidden.

    Args:
        logits: of the model, nothing of them forbidden yet; they are about to be changed in place.
    """

    def __init__(self, logits: np.ndarray):
        self._logits = logits.copy()
        self._max_logit = float(logits.max())
        self._weights = np.exp(logits - self._max_logit)  # float32 will do: four digits are shown
        self._steered: list[str] = []
        self._left = -1  # how many tokens are allowed, if that was counted

    def note_steering(self, rule: str, logits: np.ndarray) -> None:
        """A rule had its say; it steered if fewer tokens are allowed now.

        Args:
            rule: its name; "" for the mask of the grammar, which comes first.
            logits: as the rule has left them.
        """
        left = int(np.count_nonzero(logits > -np.inf))
        if rule and left < self._left:
            self._steered.append(rule)
        self._left = left

    def observe(
        self,
        logits: np.ndarray,
        vocabulary: Vocabulary,
        count: int,
        opening: np.ndarray | None = None,
    ) -> Observation:
        """What is known of the position once all have had their say.

        Args:
            logits: as the sampler gets them.
            vocabulary: what tokens spell.
            count: of alternatives.
            opening: the tokens that a call begins with here; None: none can begin.
        """
        is_allowed = logits > -np.inf
        total = float(self._weights.sum())
        weight = float(self._weights @ is_allowed.astype(np.float32))  # of the allowed ones
        alternatives: list[Alternative] = []
        for token in _find_best(self._logits, count).tolist():
            share = float(self._weights[token]) / total
            text = vocabulary.tokens[token]
            alternatives.append(Alternative(token, text, share, bool(is_allowed[token])))
        rivals: list[Alternative] = []
        call_share = None
        if weight:
            for token in _find_best(np.where(is_allowed, self._logits, -np.inf), count).tolist():
                share = float(self._weights[token]) / weight
                rivals.append(Alternative(token, vocabulary.tokens[token], share, is_allowed=True))
            if opening is not None:
                allowed = opening[is_allowed[opening]]
                call_share = min(1.0, float(self._weights[allowed].sum()) / weight)
        return Observation(
            allowed=int(np.count_nonzero(is_allowed)),
            mass=weight / total,
            logits=self._logits,
            log_total=self._max_logit + float(np.log(total)),
            alternatives=tuple(alternatives),
            steered_by=tuple(self._steered),
            rivals=tuple(rivals),
            call_share=call_share,
            opening=frozenset() if opening is None else frozenset(opening.tolist()),
        )


def _find_best(logits: np.ndarray, count: int) -> np.ndarray:
    """The most likely tokens, best first."""
    # A sort of all tokens would take longer than the mask. Only likely ones are looked at, and
    # where the model is undecided these are most.
    likely = np.flatnonzero(logits > logits.max() - NEGLIGIBLE)
    values = logits[likely]
    if len(likely) > count:
        chosen = np.sort(np.argpartition(-values, count)[:count])
        likely, values = likely[chosen], values[chosen]
    return likely[np.argsort(-values, kind="stable")]


class TokenTrace:
    """The tokens of a turn under way, in the order in which they were written.

    Args:
        vocabulary: what tokens spell.
        clock: for the time of each token; it begins now.

    Attributes:
        tokens: all that were written, those that were discarded included.
    """

    def __init__(self, vocabulary: Vocabulary, clock: Clock):
        self._vocabulary = vocabulary
        self._clock = clock
        self._began = clock()
        self._live: list[int] = []  # the indexes of those that the turn has
        self.tokens: list[TracedToken] = []

    def write(
        self,
        token: int,
        source: TokenSource,
        observation: Observation | None,
        *,
        is_drafted: bool = False,
        is_end: bool = False,
    ) -> None:
        """Notes a token; its position, if somebody looked there."""
        traced = TracedToken(
            token,
            self._vocabulary.tokens[token],
            source,
            self._clock() - self._began,
            is_drafted=is_drafted,
            is_end=is_end,
        )
        if observation is not None:
            probability = observation.find_probability(token)
            masked = probability / observation.mass if observation.mass else 1.0
            traced = replace(
                traced,
                steered_by=observation.steered_by,
                allowed=observation.allowed,
                probability=probability,
                masked_probability=min(1.0, masked),
                alternatives=observation.alternatives,
                rivals=observation.rivals,
                call_share=observation.call_share,
                is_opening=token in observation.opening,
            )
        if not is_end:
            self._live.append(len(self.tokens))
        self.tokens.append(traced)

    def rewind(self, count: int) -> None:
        """The turn has only its first `count` tokens now."""
        for index in self._live[count:]:
            self.tokens[index] = replace(self.tokens[index], is_discarded=True)
        if self.tokens and self.tokens[-1].is_end:  # the turn goes on: it was no end
            self.tokens[-1] = replace(self.tokens[-1], is_discarded=True)
        del self._live[count:]


def find_live(tokens: Sequence[TracedToken]) -> list[TracedToken]:
    """Those that the turn has."""
    return [one for one in tokens if not one.is_discarded and not one.is_end]
