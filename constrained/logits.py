"""Probabilities of tokens, read off the logits of a model."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from grammars.schema.nodes import Json

LEAST = -9999.0  # the logarithm that is shown of what is impossible


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
            "logprob": max(self.logprob, LEAST),
            "top": [[token, logprob] for token, logprob in self.top],
        }


class TokenScores(Protocol):
    """Logarithms of probabilities at one position."""

    def of(self, token: int) -> float:
        """That of a token."""
        ...

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most likely tokens, at most so many, best first; none that is impossible."""
        ...


class ReportedScores:
    """The log probabilities of a few tokens, as a remote engine has reported them.

    Args:
        logprobs: of the likeliest tokens at the position, and of the one that was drawn.
        likely: those of them that are among the likeliest.
    """

    def __init__(self, logprobs: Mapping[int, float], likely: Collection[int]):
        self._logprobs = logprobs
        self._likely = likely

    def of(self, token: int) -> float:
        """That of a token."""
        return self._logprobs.get(token, LEAST)

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most likely tokens, at most so many, best first."""
        pairs = [(token, self._logprobs[token]) for token in self._likely]
        return tuple(sorted(pairs, key=_rank)[:count])


class Scores:
    """The logarithms of the probabilities of all tokens at one position.

    Args:
        logits: of the model, nothing of them forbidden yet; what is changed in them later on does
            not matter.
    """

    def __init__(self, logits: np.ndarray):
        logits = logits.astype(np.float64)
        max_logit = logits.max()
        self._logprobs = logits - (max_logit + np.log(np.exp(logits - max_logit).sum()))

    def of(self, token: int) -> float:
        """That of a token."""
        return float(self._logprobs[token])

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most likely tokens, at most so many, best first; none that is impossible."""
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
    """The log probability of a token, and of the most likely ones at its position.

    Args:
        token: its id.
        text: what it spells.
        scores: of its position; None: nobody asked the model.
        count: how many of the most likely tokens are named.
    """
    if scores is None:
        return TokenDrawn(token, text)
    return TokenDrawn(token, text, logprob=scores.of(token), top=scores.top(count))


def find_unavoidable(logits: np.ndarray, banned: Sequence[int]) -> int | None:
    """The most likely token, where all that may come next are banned; None where others may.

    A grammar goes before a ban: a turn that cannot go on would not end well.
    """
    if not banned:
        return None
    allowed = logits > -np.inf
    allowed[banned] = False
    return None if allowed.any() else int(logits.argmax())
