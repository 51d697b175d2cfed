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


class Observation:
    """What the trace notes of one position: the logits before the mask, compared with those after
    it. The attributes are those of `TracedToken`.

    Args:
        logits: before the mask; they are copied, since they are then changed in place.

    Attributes:
        mass: the probability of the allowed tokens before the mask, from 0 to 1.
        opening: the tokens whose probability `call_share` is.
    """

    def __init__(self, logits: np.ndarray):
        self._logits = logits.copy()
        self._max_logit = float(logits.max())
        self._weights = np.exp(logits - self._max_logit)  # float32 is enough for four digits
        self._total = float(self._weights.sum())
        self._left = -1  # the number of allowed tokens; -1: not counted yet
        self.steered_by: list[str] = []
        self.allowed = 0
        self.mass = 0.0
        self.alternatives: list[Alternative] = []
        self.rivals: list[Alternative] = []
        self.call_share: float | None = None
        self.opening: set[int] = set()

    def note_steering(self, rule: str, logits: np.ndarray) -> None:
        """Notes a rule if it has forbidden tokens.

        Args:
            rule: its name; "" for the mask of the grammar, which comes first.
        """
        left = int(np.count_nonzero(logits > -np.inf))
        if rule and left < self._left:
            self.steered_by.append(rule)
        self._left = left

    def note_allowed(
        self, logits: np.ndarray, vocabulary: Vocabulary, count: int, opening: np.ndarray | None
    ) -> None:
        """Notes what may be sampled, after the mask and all rules, and the `count` most likely
        tokens."""
        is_allowed = logits > -np.inf
        weight = float(self._weights @ is_allowed.astype(np.float32))  # of the allowed ones
        self.allowed = int(np.count_nonzero(is_allowed))
        self.mass = weight / self._total
        for token in _find_best(self._logits, count).tolist():
            share = float(self._weights[token]) / self._total
            text = vocabulary.tokens[token]
            self.alternatives.append(Alternative(token, text, share, bool(is_allowed[token])))
        if opening is not None:
            self.opening.update(opening.tolist())
        if not weight:
            return
        for token in _find_best(np.where(is_allowed, self._logits, -np.inf), count).tolist():
            share = float(self._weights[token]) / weight
            self.rivals.append(Alternative(token, vocabulary.tokens[token], share, is_allowed=True))
        if opening is not None:
            allowed = opening[is_allowed[opening]]
            self.call_share = min(1.0, float(self._weights[allowed].sum()) / weight)

    def find_probability(self, token: int) -> float:
        """Returns the probability of a token before the mask."""
        log_total = self._max_logit + float(np.log(self._total))
        return float(np.exp(self._logits[token] - log_total))


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
                steered_by=tuple(observation.steered_by),
                allowed=observation.allowed,
                probability=probability,
                masked_probability=min(1.0, masked),
                alternatives=tuple(observation.alternatives),
                rivals=tuple(observation.rivals),
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
