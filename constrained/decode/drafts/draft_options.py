"""The options of a draft model; no llama.cpp is needed to read them."""

import os
from dataclasses import dataclass

from constrained.errors import RequestError

MAX_DRAFT_TOKENS = 12  # tokens; an engine has room for the logits of so many
SURE = 0.75  # llama-server began with it; it takes 0 now


@dataclass(frozen=True)
class DraftOptions:
    """A draft model, and how it is asked; llama-server's options by their long names.

    Args:
        path: a GGUF file of the same vocabulary, or the name of a model that a package contains.
        most: tokens of a draft, at most (--draft-max).
        least_probability: a draft ends in front of a token that is less likely, among those that
            the grammar allows (--draft-p-min).
        gpu_layers: of the draft model on the GPU; -1: all (-ngld).

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
