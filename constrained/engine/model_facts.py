"""Facts about a model from its file, such as its name and quantisation, without loading it."""

from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path

from constrained.engine.gguf.contents import (
    TYPES,
    GgufContents,
    join_parts,
    list_parts,
    read_sound_contents,
)
from constrained.engine.gguf.reader import Value
from constrained.errors import ModelError


@dataclass(frozen=True)
class ModelFacts:
    """The facts that a model file states; "" and 0: it does not state this.

    Args:
        name: the name that its makers gave it.
        architecture: llama.cpp's name, such as `qwen3`.
        quantisation: llama.cpp's name, such as `Q4_K_M`.
        parameters: the number of weights.
        context_length: the context length that it was trained on, in tokens.
        embedding_length: the dimension of its embeddings.
        bytes: the size of its files.
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
    """Reads the facts of a model file, without loading the model.

    Args:
        path: of the file; of a split one, the first part.

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
    """Returns the number of weights by their type."""
    weights = Counter[int]()
    for tensor in found.tensors:
        weights[tensor.kind] += prod(tensor.shape)
    return weights


def _name_quantisation(file_type: Value, weights: Counter[int]) -> str:
    """Returns the name of the quantisation; by default, of the type that most weights have."""
    from constrained.engine.llama_params import name_file_type

    if isinstance(file_type, int) and (name := name_file_type(file_type)):
        return name
    if not weights:
        return ""
    [(commonest, _)] = weights.most_common(1)
    return TYPES[commonest][0] if commonest in TYPES else ""
