"""A tool format that the user chooses, on a real llama.cpp with random weights."""

from pathlib import Path

import llama_cpp
import pytest

from constrained.agent.loading import from_llama, load
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from examples.random_model import load_small, write_model
from grammars.wire.formats import QWEN3_CODER
from tests.templates import HERMES, PAINT

SEEDED = Sampling(temperature=1.5, seed=5)


def test_a_chosen_format_is_enforced(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", load_small(), HERMES, n_layer=1)
    with load(path, threads=1, tool_format="qwen3_coder") as model:
        assert "qwen3_coder is explained in the prompt" in model.notices[0]
        reply = model.call("Paint!", [PAINT], tool_choice="required", sampling=SEEDED)
        assert reply.calls
        assert "<function=paint>" in reply.text
    llama = llama_cpp.Llama(str(path), n_ctx=2048, n_threads=1, verbose=False)
    with from_llama(llama, tool_format=QWEN3_CODER) as model:
        assert model.compiler.format.call == QWEN3_CODER.call
    with pytest.raises(RequestError, match="harmony cannot be taught"):
        from_llama(llama, tool_format="harmony")
    llama.close()


def test_a_chosen_format_without_a_template(tmp_path: Path) -> None:
    path = write_model(tmp_path / "bare.gguf", load_small(), None, n_layer=1)
    with load(path, threads=1, tool_format="mistral") as model:
        assert "ChatML and the tool format mistral are used" in model.notices[0]
        reply = model.call("Paint!", [PAINT], tool_choice="required", sampling=SEEDED)
        assert "[TOOL_CALLS]paint[ARGS]{" in reply.text
