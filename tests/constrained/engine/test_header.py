"""What a GGUF file says beside its weights: chat templates by name, how to sample."""

from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import pytest
from gguf.scripts.gguf_new_metadata import MetadataDetails, copy_with_new_metadata
from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.header import (
    FIELDS,
    NEUTRAL,
    SAMPLING,
    Header,
    choose_template,
    find_sampling,
    find_templates,
)
from constrained.engine.llama_files import read_header
from constrained.engine.llamacpp import load
from constrained.engine.protocol import Sampling
from constrained.errors import TemplateError
from examples.random_model import load_small, write_model

KINDS = gguf.GGUFValueType


def header(folder: Path, templates: Any, **sampling: tuple[KINDS, Any]) -> Header:
    """Writes a file with these values, and reads its header."""
    plain = write_model(folder / "plain.gguf", load_small(), None, n_layer=1)
    writer = gguf.GGUFWriter(folder / "model.gguf", "qwen3")
    if templates is not None:
        writer.add_chat_template(templates)
    new = {f"{SAMPLING}{key}": MetadataDetails(*pair) for key, pair in sampling.items()}
    copy_with_new_metadata(gguf.GGUFReader(plain), writer, new, [])
    writer.close()
    return read_header(folder / "model.gguf")


def test_keys_are_those_of_llama_cpp():
    keys: list[bytes] = []
    while (key := llama_cpp.llama_model_meta_key_str(len(keys))) is not None:
        keys.append(key)
    names = {key.decode().removeprefix(SAMPLING) for key in keys}
    assert names >= {*FIELDS, *NEUTRAL, "sequence"}
    rest = {"xtc_threshold", "mirostat_tau", "mirostat_eta"}
    assert names - {*FIELDS, *NEUTRAL, "sequence"} == rest  # of no effect by themselves


def test_what_a_file_recommends(tmp_path: Path):
    read = header(
        tmp_path,
        None,
        temp=(KINDS.FLOAT32, 0.6),
        top_k=(KINDS.INT32, 20),
        top_p=(KINDS.FLOAT32, 0.9),
        min_p=(KINDS.FLOAT32, 0.0),
        penalty_repeat=(KINDS.FLOAT32, 1.05),
        xtc_probability=(KINDS.FLOAT32, 0.0),
        penalty_last_n=(KINDS.INT32, 64),
        mirostat=(KINDS.INT32, 0),
        sequence=(KINDS.STRING, "penalties;temperature"),
    )
    sampling, notes = find_sampling(read.metadata)
    assert sampling == Sampling(0.6, 20, 0.9, 0.0, repeat_penalty=1.05, penalty_last_n=64)
    assert notes == ("the model recommends sequence penalties;temperature, which is not supported",)
    with load(tmp_path / "model.gguf", context_length=64) as engine:
        assert find_sampling(engine.header.metadata) == (sampling, notes)


def test_a_file_that_recommends_nothing(tmp_path: Path):
    read = header(tmp_path, None)
    assert find_sampling(read.metadata) == (Sampling(), ())
    assert read.chat_templates == {}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("temp", "hot", "'hot' is not a number"),
        ("temp", "-1.0", "temperature is -1.0, must be from 0 to 1000"),
        ("temp", "nan", "temperature is nan"),
        ("temp", "inf", "temperature is inf"),
        ("top_k", "1.5", "top_k is 1.5"),
        ("top_k", "true", "'true' is not a number"),
        ("top_p", "2", "top_p is 2.0, must be from 0 to 1"),
        ("min_p", "", "'' is not a number"),
        ("penalty_repeat", "0", "repeat_penalty is 0.0, must be from 0.001 to 1000"),
        ("penalty_last_n", "-2", "penalty_last_n is -2, must be -1 or more"),
        ("mirostat", "x", "'x' is not a number"),
    ],
)
def test_bad_values_are_left_out(name: str, text: str, reason: str):
    good = {"top_k": "7"} if name != "top_k" else {"temp": "0.5"}
    sampling, notes = find_sampling({SAMPLING + k: v for k, v in {name: text, **good}.items()})
    assert sampling == (Sampling(top_k=7) if name != "top_k" else Sampling(0.5))
    assert len(notes) == 1
    assert notes[0].startswith(f"the model's general.sampling.{name} is left out: ")
    assert reason in notes[0]


def test_other_spellings_of_numbers():
    assert find_sampling({f"{SAMPLING}top_k": "20.000000"}) == (Sampling(top_k=20), ())
    assert find_sampling({f"{SAMPLING}top_k": "-1"}) == (Sampling(top_k=0), ())
    assert find_sampling({f"{SAMPLING}mirostat": "2"})[1] != ()


TEXTS = st.text() | st.floats().map(str) | st.integers().map(str)


@given(st.dictionaries(st.sampled_from([*FIELDS, *NEUTRAL, "sequence", "other"]), TEXTS))
def test_each_value_counts_or_has_a_note(values: dict[str, str]):
    sampling, notes = find_sampling({SAMPLING + key: text for key, text in values.items()})
    for key, field in FIELDS.items():
        number = getattr(sampling, field)
        if key not in values or any(f"{SAMPLING}{key} is left out" in note for note in notes):
            assert number == getattr(Sampling, field)
        else:
            assert number == float(values[key]) or (key == "top_k" and float(values[key]) < number)
    assert len(notes) <= len(values)


def test_templates_by_name(tmp_path: Path):
    named = [
        {"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "with tools"},
        {"name": "rag", "template": "with documents"},
    ]
    read = header(tmp_path, named)
    expected = {"": "plain", "tool_use": "with tools", "rag": "with documents"}
    assert read.chat_templates == expected
    with load(tmp_path / "model.gguf", context_length=64) as engine:
        assert engine.header.chat_templates == expected
        assert engine.header.metadata["tokenizer.chat_template.rag"] == "with documents"


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ("default", "default"),
        ("default tool_use", "tool_use"),
        ("default rag", "default"),
        ("default tool_use rag", "tool_use"),
        ("tool_use", "tool_use"),
    ],
)
def test_choice_of_a_template(names: str, chosen: str):
    keys = {"tokenizer.chat_template": "default"} if "default" in names else {}
    keys |= {f"tokenizer.chat_template.{n}": n for n in names.split() if n != "default"}
    assert choose_template(find_templates(keys)) == chosen


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ({}, "the model has no chat template. Name a file"),
        ({"rag": "x", "chat": "y"}, "no default chat template. Available: rag, chat"),
    ],
)
def test_templates_that_are_not_there(templates: dict[str, str], message: str):
    with pytest.raises(TemplateError) as e:
        choose_template(templates)
    assert message in str(e.value)
