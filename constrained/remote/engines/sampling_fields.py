"""Sampling in the fields that vLLM and SGLang have in common, and what they do otherwise."""

import math
from dataclasses import dataclass
from typing import Any

from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.remote.engines.http_sampler import list_unwritten
from constrained.vocabulary.vocabulary import Vocabulary

MAX_BIAS = 100
"""Theirs goes from -100 to 100, as OpenAI's; both ends are as good as never and always."""


LEAST_REPEAT = 1e-3  # above 0


@dataclass(frozen=True)
class SamplingBounds:
    """What an engine takes at most.

    Args:
        temperature: its highest.
        repeat_penalty: its highest; the lowest is above 0.
    """

    temperature: float = math.inf
    repeat_penalty: float = math.inf


def check_sampling(sampling: Sampling, engine: str, bounds: SamplingBounds) -> None:
    """Refuses what they would refuse, or do otherwise than it was asked.

    Raises:
        RequestError: names the field.
    """
    for field, value, least, most in (
        ("temperature", sampling.temperature, 0.0, bounds.temperature),
        ("repeat_penalty", sampling.repeat_penalty, LEAST_REPEAT, bounds.repeat_penalty),
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
    """The fields; both take -1 for all tokens at `top_k`.

    Args:
        sampling: as it was asked for.
        vocabulary: of the engine.
        grammar: of the reply; None: there is none.
    """
    fields: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or -1,
        "top_p": sampling.top_p or 1e-6,  # 0 is out of their range
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
    """Tokens with a name that their masks would let into strings. Of a tokenizer of Hugging Face,
    llguidance keeps those in angle brackets out of them, special or not."""
    listed: list[int] = []
    for token in list_unwritten(vocabulary, grammar):
        name = vocabulary.named[token]
        if not (name.startswith("<") and name.endswith(">")):
            listed.append(token)
    return listed
