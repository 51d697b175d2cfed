"""Facts about a model from its file, such as its name and quantisation, without loading it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from constrained.engine.gguf.contents import GgufContents, read_all_parts
from constrained.engine.gguf.weights import FILE_TYPE, FILE_TYPES, count_weights


@dataclass(frozen=True)
class ModelFacts:
    """The facts that a model file states; "" and 0: it does not state this."""

    name: str = ""
    architecture: str = ""
    quantisation: str = ""  # llama.cpp's name, such as `Q4_K_M`
    parameters: int = 0
    context_length: int = 0  # tokens that it was trained on
    embedding_length: int = 0
    bytes: int = 0


NO_FACTS = ModelFacts()


def read_facts(path: Path) -> ModelFacts:
    """Reads the facts of a model file, of a split one by its first part, without loading the
    model."""
    found = read_all_parts(path)
    weights = count_weights(found.tensors)
    return ModelFacts(
        name=found.text("general.name"),
        architecture=found.architecture,
        quantisation=_name_quantisation(found, weights),
        parameters=weights.total(),
        context_length=found.own("context_length") or 0,
        embedding_length=found.own("embedding_length") or 0,
        bytes=found.size,
    )


def _name_quantisation(found: GgufContents, weights: Counter[str]) -> str:
    """Returns the name of the quantisation; by default, of the type that most weights have."""
    number = found.number(FILE_TYPE)
    if number is not None and number in FILE_TYPES:
        return FILE_TYPES[number]
    for name, _ in weights.most_common(1):
        return name
    return ""
