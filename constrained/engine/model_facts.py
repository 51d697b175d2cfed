"""What a model file says of the model."""

from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path

from constrained.errors import ModelError
from constrained.gguf.contents import GgufContents, join_parts, list_parts
from constrained.gguf.metadata_limits import read_sound_contents
from constrained.gguf.reader import Value


@dataclass(frozen=True)
class ModelFacts:
    """What a model file says of itself; "" and 0 stand for what it does not say.

    Args:
        name: as its makers call it.
        architecture: in llama.cpp's terms, such as `qwen3`.
        quantisation: in the terms of llama.cpp's files, such as `Q4_K_M`.
        parameters: of the model.
        context_length: tokens that it was trained for.
        embedding_length: numbers of an embedding.
        bytes: of its files.
    """

    name: str = ""
    architecture: str = ""
    quantisation: str = ""
    parameters: int = 0
    context_length: int = 0
    embedding_length: int = 0
    bytes: int = 0


NO_FACTS = ModelFacts()


def read_facts(path: Path) -> ModelFacts:
    """What a model file says of itself, without loading it.

    Args:
        path: of a split file, the first part.

    Raises:
        ModelError: it cannot be read.
    """
    files = list_parts(path)
    if not files:
        raise ModelError(f"{path} cannot be read: no such file")
    found = join_parts([read_sound_contents(file) for file in files])
    weights = _count_weights(found)
    return ModelFacts(
        name=found.text("general.name"),
        architecture=found.architecture,
        quantisation=_name_quantisation(found.metadata.get("general.file_type"), weights),
        parameters=weights.total(),
        context_length=found.own("context_length") or 0,
        embedding_length=found.own("embedding_length") or 0,
        bytes=found.size,
    )


def _count_weights(found: GgufContents) -> Counter[int]:
    """How many weights there are of each type."""
    weights = Counter[int]()
    for tensor in found.tensors:
        weights[tensor.kind] += prod(tensor.shape)
    return weights


def _name_quantisation(file_type: Value, weights: Counter[int]) -> str:
    """The name of the quantisation: what the file says, else the type of most of its weights."""
    from constrained.engine.llama_params import name_file_type, name_weight_type

    if isinstance(file_type, int) and (name := name_file_type(file_type)):
        return name
    if not weights:
        return ""
    [(commonest, _)] = weights.most_common(1)
    return name_weight_type(commonest)
