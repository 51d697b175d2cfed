"""The sampling fields that vLLM and SGLang share, and their differences from ours."""

import math
from dataclasses import dataclass
from typing import Any

from constrained.engine.sampling import Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError
from constrained.remote.engines.http_sampler import list_unwritten

MAX_BIAS = 100
"""The limit of their biases: from -100 to 100, as in OpenAI's API; the ends mean never and
always."""


MIN_REPETITION_PENALTY = 1e-3  # it must be above 0


@dataclass(frozen=True)
class SamplingBounds:
    """The limits of an engine.

    Args:
        temperature: the maximum.
        repeat_penalty: the maximum; the minimum is above 0.
    """

    temperature: float = math.inf
    repeat_penalty: float = math.inf


def check_sampling(sampling: Sampling, engine: str, bounds: SamplingBounds) -> None:
    """Refuses sampling that the engine would refuse, or do in another way."""
    for field, value, least, most in (
        ("temperature", sampling.temperature, 0.0, bounds.temperature),
        ("repeat_penalty", sampling.repeat_penalty, MIN_REPETITION_PENALTY, bounds.repeat_penalty),
    ):
        if not least <= value <= most:
            message = f"{field} is {value:g}, {engine} takes {least:g} to {most:g}"
            raise RequestError(message, where=f"/{field}")
    if sampling.has_penalties and sampling.penalty_last_n not in (-1, Sampling.penalty_last_n):
        message = f"the penalties of {engine} look at all tokens"
        raise RequestError(message, where="/penalty_last_n", hint="Leave it out")
    for token, bias in sampling.biases:
        if bias != -math.inf and abs(bias) > MAX_BIAS:
            message = f"the bias is {bias:g}, {engine} takes -{MAX_BIAS} to {MAX_BIAS}"
            raise RequestError(message, where=f"/logit_bias/{token}")


def write_sampling(
    sampling: Sampling, vocabulary: Vocabulary, grammar: str | None
) -> dict[str, Any]:
    """Writes the fields; for both engines, -1 at `top_k` means all tokens."""
    fields: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or -1,
        "top_p": sampling.top_p or 1e-6,  # 0 is not allowed
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repeat_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    biases = {str(token): max(-MAX_BIAS, bias) for token, bias in sampling.biases}
    if grammar is not None:
        biases |= {str(token): -MAX_BIAS for token in _list_text(vocabulary, grammar)}
    if biases:
        fields["logit_bias"] = biases
    return fields


def _list_text(vocabulary: Vocabulary, grammar: str) -> list[int]:
    """Lists the special tokens that the engines' masks would allow in strings. If the tokenizer is
    of Hugging Face, llguidance itself excludes those in angle brackets, special or not."""
    listed: list[int] = []
    for token in list_unwritten(vocabulary, grammar):
        name = vocabulary.named[token]
        if not (name.startswith("<") and name.endswith(">")):
            listed.append(token)
    return listed
