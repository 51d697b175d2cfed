"""llama.cpp's own `models/` directory: its vocabularies, and the chat templates of real models."""

import os
from functools import lru_cache
from pathlib import Path

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from examples.random_model import SourceUnavailable, models_directory


def require_models_directory() -> Path:
    """Returns llama.cpp's `models/` directory, or skips the test where there is no network.

    In continuous integration (`CI` is set) nothing is skipped: the error fails the test.
    """
    try:
        return models_directory()
    except SourceUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"needs llama.cpp's vocabularies: {error}")


def read_template(name: str) -> str:
    """The text of one of llama.cpp's templates; skips the test as above."""
    return Path(require_models_directory(), "templates", f"{name}.jinja").read_text("utf-8")


@lru_cache(maxsize=1)
def real_templates() -> dict[str, ChatTemplate]:
    """The 70 or so chat templates that llama.cpp keeps for its own tests, by name."""
    paths = sorted(Path(require_models_directory(), "templates").glob("*.jinja"))
    assert len(paths) >= 70
    return {
        path.stem: ChatTemplate(
            path.read_text(encoding="utf-8"), bos_token="<s>", eos_token="</s>", name=path.stem
        )
        for path in paths
    }


# What these do not write, whoever renders them.
NO_TOOLS = {"google-gemma-2-2b-it", "llama-cpp-rwkv-world", "microsoft-Phi-3.5-mini-instruct"}
NO_CALLS = NO_TOOLS | {
    "HuggingFaceTB-SmolLM3-3B",
    "LFM2-8B-A1B",
    "LFM2.5-Instruct",
    "ibm-granite-granite-3.3-2B-Instruct",
}
