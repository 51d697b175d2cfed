"""The options of sampling, checked."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, TypeAlias, TypedDict

from constrained.engine.options import UnlessMinusOne, show_plain_types
from constrained.errors import RequestError

SEEDS = 2**32 - 1  # seeds are below this number, which means a random seed in llama.cpp
# The logits of models are below 100; with values far above these, a float32 would overflow.
MAX_BIAS = 1e6
MAX_PENALTY = 1e3
MAX_TEMPERATURE = 1e3
# Logits divided by less could overflow, too; below this, the most likely token is sampled anyway.
MIN_TEMPERATURE = 1e-6
Biases: TypeAlias = tuple[tuple[int, float], ...]


class SamplingOptions(TypedDict, total=False):
    """The fields of `Sampling` as options of calls, for type checkers, which cannot read them."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_last_n: int
    logit_bias: Mapping[int, float] | Biases


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled. Samplers and defaults are those of llama-server.

    Args:
        temperature: temperature, up to 1,000; 0: always the most likely token (--temp --temperature
            T).
        top_k: keep only this many of the most likely tokens; 0: all (--top-k N).
        top_p: keep only the most likely tokens whose probabilities add up to this; 1: all (--top-p
            P).
        min_p: keep only tokens at least this likely, relative to the most likely one; 0: all
            (--min-p P).
        seed: seed, which makes sampling repeatable; default, and -1: random (--seed N).
        repeat_penalty: penalty for repeated tokens; 1: none (--repeat-penalty X; advanced:
            penalties). It divides their logits, or multiplies them if they are negative.
        frequency_penalty: subtracted from the logit of a token for each time that it appeared
            (--frequency-penalty X; advanced: penalties).
        presence_penalty: subtracted once from the logit of a token that appeared
            (--presence-penalty X; advanced: penalties).
        penalty_last_n: number of last tokens that are penalised, prompt included; 0: none; -1: all
            (--repeat-last-n N; advanced: penalties).
        logit_bias: added to the logits of tokens, by token id. -inf: never sample this token,
            unless the grammar allows no other. A bias cannot override the mask.

    Raises:
        RequestError: a value is out of range; `where` names the field.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: UnlessMinusOne = None
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    logit_bias: Mapping[int, float] | Biases = ()

    def __post_init__(self) -> None:
        fits = _is_within(self.temperature, 0, MAX_TEMPERATURE)
        self._require("temperature", fits, f"from 0 to {MAX_TEMPERATURE:g}")
        self._require("top_k", _is_whole(self.top_k) and self.top_k >= 0, "0 or more")
        self._require("top_p", _is_within(self.top_p, 0, 1), "from 0 to 1")
        self._require("min_p", _is_within(self.min_p, 0, 1), "from 0 to 1")
        fits = self.seed is None or (_is_whole(self.seed) and 0 <= self.seed < SEEDS)
        self._require("seed", fits, f"from 0 to {SEEDS - 1}, or absent")
        fits = _is_within(self.repeat_penalty, 1 / MAX_PENALTY, MAX_PENALTY)
        self._require("repeat_penalty", fits, f"from {1 / MAX_PENALTY:g} to {MAX_PENALTY:g}")
        for name in ("frequency_penalty", "presence_penalty"):
            self._require(name, _is_within(getattr(self, name), -2, 2), "from -2 to 2")
        fits = _is_whole(self.penalty_last_n) and self.penalty_last_n >= -1
        self._require("penalty_last_n", fits, "-1 or more")
        object.__setattr__(self, "logit_bias", _read_biases(self.logit_bias))

    def _require(self, name: str, fits: bool, range_: str) -> None:
        if not fits:
            message = f"{name} is {getattr(self, name)!r}, must be {range_}"
            raise RequestError(message, where=f"/{name}")

    @property
    def biases(self) -> Biases:
        """`logit_bias` as pairs of token id and bias, ordered by token id."""
        assert isinstance(self.logit_bias, tuple)
        return self.logit_bias

    @property
    def is_greedy(self) -> bool:
        return self.temperature < MIN_TEMPERATURE

    @property
    def is_argmax(self) -> bool:
        """True if the token with the highest logit is always sampled, without biases and
        penalties."""
        return self.is_greedy and not self.biases and not self.has_penalties

    @property
    def banned(self) -> list[int]:
        """The ids of tokens whose bias is -inf."""
        return [token for token, bias in self.biases if bias == -math.inf]

    @property
    def has_penalties(self) -> bool:
        penalties = (self.repeat_penalty, self.frequency_penalty, self.presence_penalty)
        return self.penalty_last_n != 0 and penalties != (1, 0, 0)

    def check_tokens(self, count: int) -> None:
        """Checks that the tokens of `logit_bias` exist; raises RequestError.

        Args:
            count: number of tokens in the vocabulary.
        """
        for token, _ in self.biases:
            if token >= count:
                hint = f"The model has the tokens 0 to {count - 1}"
                where = f"/logit_bias/{token}"
                raise RequestError(f"there is no token {token}", where=where, hint=hint)

    def count_last(self, context_length: int) -> int:
        """Returns how many tokens the penalties consider.

        Args:
            context_length: the length of the context, in tokens.
        """
        last = self.penalty_last_n
        return context_length if last == -1 else min(last, context_length)

    def some_seed(self) -> int:
        """Returns the seed, or a random one if there is none."""
        return secrets.randbelow(SEEDS) if self.seed is None else self.seed


show_plain_types(Sampling)


def read_sampling(options: Mapping[str, Any], default: Sampling) -> Sampling:
    """Returns the sampling of a call: its option `sampling`, or `default` with those fields that
    are options themselves."""
    fields = {name: options[name] for name in SamplingOptions.__annotations__ if name in options}
    given = options.get("sampling")
    if given is None:
        return replace(default, **fields)
    if not isinstance(given, Sampling):
        hint = "Give a Sampling, such as Sampling(temperature=0.2)"
        raise RequestError(f"sampling is {given!r}", where="/sampling", hint=hint)
    for name in fields:
        hint = f"Write {name} into the Sampling, or leave sampling out"
        raise RequestError(f"{name} is given beside sampling", where=f"/{name}", hint=hint)
    return given


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_within(value: Any, low: float, high: float) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return low <= float(value) <= high and math.isfinite(value)


def _read_biases(given: Any) -> Biases:
    """Returns the biases as pairs of token id and bias, ordered by id."""
    try:
        items = given.items() if hasattr(given, "items") else given
        pairs = [(token, bias) for token, bias in items]
    except (TypeError, ValueError):
        hint = "Use a mapping from ids of tokens to numbers"
        raise RequestError("it is not a mapping", where="/logit_bias", hint=hint) from None
    for token, bias in pairs:
        if not (_is_whole(token) and token >= 0):
            hint = "Use its id, 0 or more"
            raise RequestError(f"{token!r} is not a token", where="/logit_bias", hint=hint)
        if not (_is_within(bias, -MAX_BIAS, MAX_BIAS) or bias == -math.inf):
            message = f"the bias is {bias!r}, must be from {-MAX_BIAS:g} to {MAX_BIAS:g}, or -inf"
            raise RequestError(message, where=f"/logit_bias/{token}")
    # Sorted, not in a dict: a client could choose integers that all have the same hash.
    biases = sorted((int(token), float(bias)) for token, bias in pairs)
    if any(token == following for (token, _), (following, _) in pairwise(biases)):
        raise RequestError("a token has two biases", where="/logit_bias", hint="Give one of them")
    return tuple(biases)
