"""The options of a draft model. This module does not import llama.cpp."""

import os
from dataclasses import dataclass

from constrained.engine.options import Layers, show_plain_types
from constrained.errors import RequestError

MAX_DRAFT_TOKENS = 12  # an engine has room for the logits of this many
SURE = 0.75  # the first default of llama-server, whose default is 0 now


@dataclass(frozen=True)
class DraftOptions:
    """The options of a draft model.

    Args:
        path: GGUF file of a small draft model with the same vocabulary (-md --model-draft
            --spec-draft-model FILE $LLAMA_ARG_SPEC_DRAFT_MODEL), or the name of a model in a
            package.
        most: maximum tokens of a draft (--draft-max --spec-draft-n-max N
            $LLAMA_ARG_SPEC_DRAFT_N_MAX).
        least_probability: least probability of a drafted token, among those that the grammar allows
            (--draft-p-min --spec-draft-p-min P $LLAMA_ARG_SPEC_DRAFT_P_MIN).
        gpu_layers: layers of the draft model on the GPU; default: all (-ngld --gpu-layers-draft
            --n-gpu-layers-draft --spec-draft-ngl N $LLAMA_ARG_N_GPU_LAYERS_DRAFT). -1: all.

    Raises:
        RequestError: a value is not valid.
    """

    path: str | os.PathLike[str]
    most: int = MAX_DRAFT_TOKENS
    least_probability: float = SURE
    gpu_layers: Layers = -1

    def __post_init__(self) -> None:
        if self.most < 1:
            raise RequestError(f"draft-max is {self.most}, must be 1 or more")
        if not 0 <= self.least_probability <= 1:
            raise RequestError(f"draft-p-min is {self.least_probability}, must be 0 to 1")
        if self.gpu_layers < -1:
            raise RequestError(f"gpu-layers-draft is {self.gpu_layers}, must be -1 or more")


show_plain_types(DraftOptions)
