"""The options of a draft model. This module does not import llama.cpp."""

import os
from dataclasses import dataclass

from constrained.engine.options import document_options, option, read_layers
from constrained.errors import RequestError

MAX_DRAFT_TOKENS = 12  # an engine has room for the logits of this many
SURE = 0.75  # the first default of llama-server, whose default is 0 now


@document_options
@dataclass(frozen=True)
class DraftOptions:
    """The options of a draft model. The names in parentheses are llama-server's.

    Args:
        path: a GGUF file with the same vocabulary, or the name of a model in a package.
        {options}

    Raises:
        RequestError: a value is not valid.
    """

    path: str | os.PathLike[str]
    most: int = option(
        MAX_DRAFT_TOKENS,
        "--draft-max --spec-draft-n-max N $LLAMA_ARG_SPEC_DRAFT_N_MAX",
        "maximum tokens of a draft",
    )
    least_probability: float = option(
        SURE,
        "--draft-p-min --spec-draft-p-min P $LLAMA_ARG_SPEC_DRAFT_P_MIN",
        "least probability of a drafted token, among those that the grammar allows",
    )
    gpu_layers: int = option(
        -1,
        "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl N "
        "$LLAMA_ARG_N_GPU_LAYERS_DRAFT",
        "layers of the draft model on the GPU; default, and -1: all",
        read=read_layers,
    )

    def __post_init__(self) -> None:
        if self.most < 1:
            raise RequestError(f"draft-max is {self.most}, must be 1 or more")
        if not 0 <= self.least_probability <= 1:
            raise RequestError(f"draft-p-min is {self.least_probability}, must be 0 to 1")
        if self.gpu_layers < -1:
            raise RequestError(f"gpu-layers-draft is {self.gpu_layers}, must be -1 or more")
