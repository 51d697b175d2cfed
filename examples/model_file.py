"""The model of an example: the one that `-m` names, or a small one that is made for it."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.random_model import MARKERS, load_small, with_markers, write_model

TEMPLATE = Path(__file__).parent / "templates" / "hermes.jinja"


@contextmanager
def model_file(about: str | None) -> Iterator[Path]:
    """Reads the command line; yields a GGUF file."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("-m", "--model", type=Path, help="a GGUF file; default: a random one")
    given = parser.parse_args().model
    with TemporaryDirectory() as folder:
        if given is None:
            print("(random weights: the structure is right, the words are noise; see -m)")
        yield given or make_model(Path(folder) / "random.gguf")


def make_model(path: Path) -> Path:
    """Writes a small model with random weights, whose chat template is like those of Hermes."""
    source = TEMPLATE.read_text(encoding="utf-8")
    return write_model(path, with_markers(load_small(), MARKERS), source)
