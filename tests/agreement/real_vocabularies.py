"""Real vocabularies: Qwen's 151,936 tokens, as they are and with the formats' markers added."""

from functools import lru_cache
from pathlib import Path

from constrained.engine.llama_files import read_header
from constrained.engine.vocabulary.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from examples.random_model import read_vocabulary, with_markers, write_model
from grammars.wire.formats import FORMATS
from tests.real_templates import require_models_directory

NAMES = ("hermes", "qwen3_coder", "mistral", "mistral_small", "llama3_json", "generic")
"""Formats whose markers are one tag each, with nothing around content or around all calls."""
MARKERS = tuple(dict.fromkeys(m for f in FORMATS if f.name in NAMES for m in f.markers))
FILE = "ggml-vocab-qwen2.gguf"


@lru_cache
def spelled() -> tuple[Vocabulary, Tokenizer]:
    """Qwen2's own vocabulary: every marker is several tokens."""
    vocabulary = read_header(require_models_directory() / FILE).vocabulary
    assert not any(vocabulary.marker(text) for text in MARKERS)
    return vocabulary, build_tokenizer(vocabulary, MARKERS)


def marked(folder: Path) -> tuple[Vocabulary, Tokenizer]:
    """The same with every marker as one token, in a file made in the folder."""
    tokens = with_markers(read_vocabulary(require_models_directory() / FILE), MARKERS)
    vocabulary = read_header(write_model(folder / "model.gguf", tokens, None)).vocabulary
    assert all(vocabulary.marker(text) for text in MARKERS)
    return vocabulary, build_tokenizer(vocabulary, MARKERS)
