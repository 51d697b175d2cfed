"""What a model file says of itself is read without loading it."""

from pathlib import Path

import llama_cpp
import pytest
from gguf import GGMLQuantizationType

from constrained.engine.gguf.contents import list_parts
from constrained.engine.model_facts import ModelFacts, read_facts
from constrained.errors import ModelError
from constrained.model_files import embedded
from examples.random_model import load_small, write_model
from tests.llama_c_api import loaded


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0"])
def test_facts_are_those_that_llama_cpp_tells(kind: str, tmp_path: Path) -> None:
    dtype = GGMLQuantizationType[kind]
    path = write_model(tmp_path / "m.gguf", load_small(), None, dtype=dtype)
    facts = read_facts(path)
    assert (facts.name, facts.architecture, facts.quantisation) == ("random weights", "qwen3", kind)
    assert facts.bytes == path.stat().st_size
    with loaded(path) as model:
        assert facts.parameters == llama_cpp.llama_model_n_params(model.model)
        assert facts.context_length == llama_cpp.llama_model_n_ctx_train(model.model)
        assert facts.embedding_length == llama_cpp.llama_model_n_embd(model.model)


def test_the_quantisation_that_a_file_does_not_name_is_that_of_most_weights() -> None:
    assert b"general.file_type" not in embedded.PATH.read_bytes()[:10_000]
    assert read_facts(embedded.PATH).quantisation == "Q8_0"


def test_parts_are_one_model(tmp_path: Path) -> None:
    one = read_facts(embedded.PATH)
    names = [f"big-0000{number}-of-00002.gguf" for number in (1, 2)]
    for name in (*names, "big-00001-of-00003.gguf", "other-00001-of-00002.gguf"):
        (tmp_path / name).symlink_to(embedded.PATH)
    first = tmp_path / names[0]
    assert [part.name for part in list_parts(first)] == names
    facts = read_facts(first)
    assert (facts.parameters, facts.bytes) == (2 * one.parameters, 2 * one.bytes)


@pytest.mark.parametrize("size", [0, 3, 20, 100, 5000])
def test_a_file_that_breaks_off_is_an_error(size: int, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(embedded.PATH.read_bytes()[:size])
    with pytest.raises(ModelError, match=r"m\.gguf"):
        read_facts(path)
    with pytest.raises(ModelError, match="cannot be read"):
        read_facts(tmp_path / "none.gguf")


def test_what_a_file_does_not_say_is_not_made_up(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF\3\0\0\0" + bytes(16))
    assert read_facts(path) == ModelFacts(bytes=24)
