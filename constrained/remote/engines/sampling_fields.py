"""Sampling in the fields that vLLM and SGLang have in common, and what they do otherwise."""

import math
from typing import Any

from constrained.engine.sampling import Sampling
from constrained.errors import RequestError

MOST_BIAS = 100
"""Theirs goes from -100 to 100, as OpenAI's; both ends are as good as never and always."""


def check_sampling(sampling: Sampling, engine: str) -> None:
    """Refuses what they would do otherwise than it was asked.

    Raises:
        RequestError: names the field.
    """
    if sampling.has_penalties and sampling.penalty_last_n not in (-1, Sampling.penalty_last_n):
        message = f"the penalties of {engine} look at all tokens"
        raise RequestError(message, where="/penalty_last_n", hint="Leave it out")
    for token, bias in sampling.biases:
        if bias != -math.inf and abs(bias) > MOST_BIAS:
            message = f"the bias is {bias:g}, {engine} takes -{MOST_BIAS} to {MOST_BIAS}"
            raise RequestError(message, where=f"/logit_bias/{token}")


def write_sampling(sampling: Sampling) -> dict[str, Any]:
    """The fields; both take -1 for all tokens at `top_k`."""
    fields: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or -1,
        "top_p": sampling.top_p or 1e-6,  # 0 is out of their range
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repeat_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    if sampling.biases:
        biases = {str(token): max(-MOST_BIAS, bias) for token, bias in sampling.biases}
        fields["logit_bias"] = biases
    return fields
