"""A model file of one layer."""

from pathlib import Path

from examples.random_model import MARKERS, load_small, with_markers, write_model


def write_one_layer(folder: Path, source: str | None) -> Path:
    tokens = with_markers(load_small(), MARKERS)
    return write_model(folder / "model.gguf", tokens, source, n_layer=1)
