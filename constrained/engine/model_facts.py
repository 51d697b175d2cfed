"""Facts about a model from its file, such as its name and quantisation, without loading it."""

from dataclasses import dataclass
from pathlib import Path

from constrained.engine.gguf.contents import read_all_parts
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
    number = found.number(FILE_TYPE)
    # By default, it is the type that most weights have.
    commonest = next((name for name, _ in weights.most_common(1)), "")
    return ModelFacts(
        name=found.text("general.name"),
        architecture=found.architecture,
        quantisation=commonest if number is None else FILE_TYPES.get(number, commonest),
        parameters=weights.total(),
        context_length=found.own("context_length") or 0,
        embedding_length=found.own("embedding_length") or 0,
        bytes=found.size,
    )
