"""The options of a draft model. This module does not import llama.cpp."""

import os
from dataclasses import dataclass

from constrained.errors import RequestError

MAX_DRAFT_TOKENS = 12  # an engine has room for the logits of this many
SURE = 0.75  # the first default of llama-server, whose default is 0 now


@dataclass(frozen=True)
class DraftOptions:
    """The options of a draft model. The names in parentheses are llama-server's.

    Args:
        path: a GGUF file with the same vocabulary, or the name of a model in a package.
        most: the maximum number of tokens of a draft (--draft-max).
        least_probability: a draft ends before a token with a lower probability, among the tokens
            that the grammar allows (--draft-p-min).
        gpu_layers: the number of layers of the draft model on the GPU; -1: all (-ngld).

    Raises:
        RequestError: a value is not valid.
    """

    path: str | os.PathLike[str]
    most: int = MAX_DRAFT_TOKENS
    least_probability: float = SURE
    gpu_layers: int = -1

    def __post_init__(self) -> None:
        if self.most < 1:
            raise RequestError(f"draft-max is {self.most}, must be 1 or more")
        if not 0 <= self.least_probability <= 1:
            raise RequestError(f"draft-p-min is {self.least_probability}, must be 0 to 1")
        if self.gpu_layers < -1:
            raise RequestError(f"gpu-layers-draft is {self.gpu_layers}, must be -1 or more")
