"""Log probabilities of tokens, computed from the logits of a model."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from grammars.schema.json_values import Json

MIN_LOGPROB = -9999.0  # stands for minus infinity in JSON


@dataclass(frozen=True)
class TokenDrawn:
    """A sampled token and its probability, if the request has `logprobs`.

    Args:
        token: the id of the token.
        text: the bytes of the token.
        logprob: its log probability according to the model alone, before mask, bias, penalties and
            temperature. 0.0 if the model was not evaluated for this token.
        top: ids and log probabilities of the most likely tokens at this position, best first.
    """

    token: int
    text: bytes
    logprob: float = 0.0
    top: tuple[tuple[int, float], ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Returns the same as JSON; minus infinity becomes -9999."""
        text = self.text.decode("utf-8", "replace")
        shown: dict[str, Json] = {"token": self.token, "text": text}
        return shown | {
            "logprob": max(self.logprob, MIN_LOGPROB),
            "top": [[token, logprob] for token, logprob in self.top],
        }


class TokenScores(Protocol):
    """Log probabilities of the tokens at one position."""

    def of(self, token: int) -> float:
        """Returns the log probability of a token."""
        ...

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Returns up to `count` of the most likely tokens with their log probabilities, best first.
        Impossible tokens are left out."""
        ...


class ReportedScores:
    """The log probabilities of a few tokens, as a remote engine has reported them.

    Args:
        logprobs: by token id; of the most likely tokens, and of the one that was sampled.
        likely: the ids of the most likely ones.
    """

    def __init__(self, logprobs: Mapping[int, float], likely: Collection[int]):
        self._logprobs = logprobs
        self._likely = likely

    def of(self, token: int) -> float:
        """Returns the log probability of a token; -9999 if it is not known."""
        return self._logprobs.get(token, MIN_LOGPROB)

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Returns up to `count` of the most likely tokens, best first."""
        pairs = [(token, self._logprobs[token]) for token in self._likely]
        return tuple(sorted(pairs, key=_rank)[:count])


class Scores:
    """The log probabilities of all tokens at one position.

    Args:
        logits: of the model, before the mask; they are copied.
    """

    def __init__(self, logits: np.ndarray):
        logits = logits.astype(np.float64)
        max_logit = logits.max()
        self._logprobs = logits - (max_logit + np.log(np.exp(logits - max_logit).sum()))

    def of(self, token: int) -> float:
        """Returns the log probability of a token."""
        return float(self._logprobs[token])

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Returns up to `count` of the most likely tokens, best first; no impossible ones."""
        best = np.argpartition(-self._logprobs, min(count, len(self._logprobs) - 1))[:count]
        possible = list[tuple[int, float]]()
        for token in best.tolist():
            logprob = self.of(token)
            if logprob > -np.inf:
                possible.append((token, logprob))
        return tuple(sorted(possible, key=_rank))


def _rank(pair: tuple[int, float]) -> tuple[float, int]:
    return -pair[1], pair[0]


def describe_token(token: int, text: bytes, scores: TokenScores | None, count: int) -> TokenDrawn:
    """Returns the event for a token, with its log probability and the most likely alternatives.

    Args:
        scores: the log probabilities at its position; None: the model was not evaluated there.
    """
    if scores is None:
        return TokenDrawn(token, text)
    return TokenDrawn(token, text, logprob=scores.of(token), top=scores.top(count))


def find_unavoidable(logits: np.ndarray, banned: Sequence[int]) -> int | None:
    """Returns the most likely token if all allowed tokens are banned; otherwise None.

    The grammar has precedence over a ban: otherwise the turn could not continue.

    Args:
        logits: after the mask; forbidden tokens have -inf.
    """
    if not banned:
        return None
    allowed = logits > -np.inf
    allowed[banned] = False
    return None if allowed.any() else int(logits.argmax())
