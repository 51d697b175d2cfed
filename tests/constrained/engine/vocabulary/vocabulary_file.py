"""The vocabulary of a file, without its weights."""

from pathlib import Path

import llama_cpp

from constrained.engine.llama_vocabulary import read_vocabulary
from constrained.engine.vocabulary.vocabulary import Vocabulary


def vocabulary_of(path: Path) -> Vocabulary:
    """Reads a vocabulary without weights. The model is never freed: `encode` needs it."""
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model
    return read_vocabulary(model)
