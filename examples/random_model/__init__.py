"""GGUF files with random weights and real vocabularies, for tests and demonstrations.

Such a model talks nonsense, but it loads, tokenises and decodes like the model whose vocabulary
and chat template it carries, so everything around the model can be exercised without a download
of real weights.

    tokens = with_markers(load_small(), MARKERS)
    write_model(Path("random.gguf"), tokens, chat_template=None)
"""

from examples.random_model.build import QWEN3_0_6B, SMALL, Shape, write_model
from examples.random_model.lfm2 import HybridShape, write_hybrid
from examples.random_model.sources import (
    SourceUnavailable,
    models_directory,
    template,
    vocabulary_file,
)
from examples.random_model.vocabulary import (
    MARKERS,
    Tokens,
    load_small,
    read_vocabulary,
    truncate,
    with_markers,
)

__all__ = [
    "MARKERS",
    "QWEN3_0_6B",
    "SMALL",
    "HybridShape",
    "Shape",
    "SourceUnavailable",
    "Tokens",
    "load_small",
    "models_directory",
    "read_vocabulary",
    "template",
    "truncate",
    "vocabulary_file",
    "with_markers",
    "write_hybrid",
    "write_model",
]
