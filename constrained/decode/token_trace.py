"""The trace of a turn: what decided about each of its tokens.

The trace does not change the turn: forced and drafted tokens stay forced and drafted. If the model
was not evaluated at a token, the trace has no probability for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.limits.deadline import Clock

NEGLIGIBLE = 12.0  # natural logarithm; e^12 is about 160,000 times less likely than the best token


class TokenSource(StrEnum):
    """What decided about a token."""

    DRAWN = "drawn"
    """The sampler, among the allowed tokens."""
    ONLY = "only"
    """The mask, which allowed only this token, or besides it only banned ones."""
    FORCED = "forced"
    """The grammar; the model was not evaluated."""
    INSERTED = "inserted"
    """A rule besides the grammar, such as a spent budget; the model was not evaluated."""
    WRITTEN = "written"
    """Another process, which has ended; its trace of the token is lost."""


@dataclass(frozen=True)
class Alternative:
    """One of the most likely tokens at a position.

    Args:
        probability: before the mask.
        is_allowed: it could have been sampled.
    """

    token: int
    text: bytes
    probability: float
    is_allowed: bool


@dataclass(frozen=True)
class Observation:
    """What the trace notes of one position.

    Args:
        allowed: how many tokens could have been sampled.
        mass: their probability before the mask, from 0 to 1.
        logits: of the model, before the mask.
        log_total: the logarithm of the sum of their exponentials.
        alternatives: the most likely tokens, best first.
        steered_by: the rules besides the grammar that forbade a token here.
        rivals: see `TracedToken`.
        call_share: see `TracedToken`.
        opening: the tokens whose share that is.
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
        """Returns the probability of a token before the mask."""
        return float(np.exp(self.logits[token] - self.log_total))


@dataclass(frozen=True)
class TracedToken:
    """A token of a turn, and what decided about it.

    Args:
        seconds: since the turn was admitted.
        is_drafted: it was drafted and accepted.
        is_discarded: the turn went back to before this token.
        steered_by: the rules besides the grammar that forbade a token here.
        allowed: how many tokens could have been sampled; None: not known.
        probability: of the token, before the mask; None: the model was not evaluated.
        masked_probability: of the token among the allowed ones, at temperature 1.
        alternatives: the most likely tokens here, before the mask, best first.
        rivals: the most likely allowed tokens, this one included, best first. Their probabilities
            are among the allowed tokens.
        call_share: the probability, among the allowed tokens, of those that begin or continue the
            opening of a call; None: no call can begin here, or not known.
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
        """The most likely token, if it was forbidden."""
        if self.alternatives and not self.alternatives[0].is_allowed:
            return self.alternatives[0]
        return None


class Position:
    """The logits of one position before the mask, to compare with those after it.

    Args:
        logits: before the mask; they are copied, since they are then changed in place.
    """

    def __init__(self, logits: np.ndarray):
        self._logits = logits.copy()
        self._max_logit = float(logits.max())
        self._weights = np.exp(logits - self._max_logit)  # float32 is enough for four digits
        self._steered: list[str] = []
        self._left = -1  # the number of allowed tokens; -1: not counted yet

    def note_steering(self, rule: str, logits: np.ndarray) -> None:
        """Notes a rule if it has forbidden tokens.

        Args:
            rule: its name; "" for the mask of the grammar, which comes first.
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
        """Returns the notes of the position, after the mask and all rules."""
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
    # Sorting all tokens would take longer than the mask, so only those that are not negligible are
    # sorted. If the model is undecided, that may still be most of them.
    likely = np.flatnonzero(logits > logits.max() - NEGLIGIBLE)
    values = logits[likely]
    if len(likely) > count:
        chosen = np.sort(np.argpartition(-values, count)[:count])
        likely, values = likely[chosen], values[chosen]
    return likely[np.argsort(-values, kind="stable")]


class TokenTrace:
    """Collects the traced tokens of a running turn.

    Args:
        clock: in seconds; the times of the tokens count from now.

    Attributes:
        tokens: all tokens in the order in which they were written, discarded ones included.
    """

    def __init__(self, vocabulary: Vocabulary, clock: Clock):
        self._vocabulary = vocabulary
        self._clock = clock
        self._began = clock()
        self._live: list[int] = []  # the indexes of the tokens that are not discarded
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
        """Adds a token."""
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
        """Notes that the turn was cut to its first `count` tokens."""
        for index in self._live[count:]:
            self.tokens[index] = replace(self.tokens[index], is_discarded=True)
        if self.tokens and self.tokens[-1].is_end:  # the turn continues after all
            self.tokens[-1] = replace(self.tokens[-1], is_discarded=True)
        del self._live[count:]


def find_live(tokens: Sequence[TracedToken]) -> list[TracedToken]:
    """Returns the tokens of the turn's text: no discarded ones and no end token."""
    return [one for one in tokens if not one.is_discarded and not one.is_end]
