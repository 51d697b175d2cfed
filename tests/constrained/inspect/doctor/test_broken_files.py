"""Files that are broken on purpose: each one is named, with a remedy."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import gguf
import pytest
from gguf import TokenType
from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.gguf.contents import (
    TYPES,
    VOCABULARY,
    GgufContents,
    count_bytes,
    read_contents,
)
from constrained.inspect.doctor.checks.file import check_machine
from constrained.inspect.doctor.examine import examine
from constrained.inspect.doctor.subject import read_subject
from constrained.inspect.doctor.verdicts import Diagnosis, Level, Verdict
from constrained.model_files import embedded
from examples.random_model import SMALL, Tokens, load_small, with_markers, write_model
from examples.random_model.qwen3 import add_sizes, add_tokenizer
from tests.templates import HERMES

TOKENS = with_markers(load_small(), ["<tool_call>", "</tool_call>", "<think>", "</think>"])
OTHER_FAMILY = HERMES.replace("<|im_start|>", "<|head|>").replace("<|im_end|>", "<|tail|>")


DEMO = Path(embedded.PATH).read_bytes()


@cache
def read_demo() -> GgufContents:
    return read_contents(Path(embedded.PATH), VOCABULARY)


def write(path: Path, template: str | None = HERMES, tokens: Tokens = TOKENS) -> Path:
    return write_model(path / "model.gguf", tokens, template, n_layer=1)


def patch(path: Path, key: str, value: int) -> Path:
    """The same file with another number of 32 bits in its metadata."""
    data = bytearray(path.read_bytes())
    at = data.index(key.encode()) + len(key) + 4
    data[at : at + 4] = value.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def cut(path: Path, length: int) -> Path:
    path.write_bytes(path.read_bytes()[:length])
    return path


def write_header(path: Path, architecture: str, tokens: Tokens, *, eos: bool = True) -> Path:
    """A file without tensors."""
    path = path / "model.gguf"
    with closing(gguf.GGUFWriter(path, arch=architecture)) as writer:
        add_sizes(writer, SMALL)
        add_tokenizer(writer, tokens, HERMES)
        if not eos:
            del writer.kv_data[0]["tokenizer.ggml.eos_token_id"]
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    return path


def retype(text: str, kind: TokenType) -> Tokens:
    types = list(TOKENS.types)
    types[TOKENS.id_of(text)] = int(kind)
    return replace(TOKENS, types=types)


def rename_end() -> Tokens:
    """A token that ends turns, of which llama.cpp does not know that it does."""
    added = with_markers(TOKENS, ["<|fin|>"], TokenType.CONTROL)
    return replace(added, eos=added.id_of("<|endoftext|>"))


BROKEN: dict[str, tuple[Callable[[Path], Path], Level, str]] = {
    "cut in its weights": (
        lambda path: cut(write(path), write(path).stat().st_size - 1000),
        Level.FAILURE,
        "the file is truncated: 1,000 of its bytes are missing",
    ),
    "cut in its metadata": (
        lambda path: cut(write(path), 5_000),
        Level.FAILURE,
        "the file is damaged: it",
    ),
    "no template": (
        lambda path: write(path, None),
        Level.FAILURE,
        "there is no chat template",
    ),
    "a template that is no Jinja": (
        lambda path: write(path, HERMES + "{% if %}"),
        Level.FAILURE,
        "Expected an expression",
    ),
    "a template that refuses everything": (
        lambda path: write(path, "{{ raise_exception('never') }}"),
        Level.FAILURE,
        "it fails on a question",
    ),
    "a template that reaches for Python": (
        lambda path: write(path, HERMES + "{{ messages.__class__ }}"),
        Level.FAILURE,
        "it is hostile: line ",
    ),
    "a template that never ends": (
        lambda path: write(
            path, "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        ),
        Level.FAILURE,
        "the template takes more than 3 seconds",
    ),
    "a template that drops the question": (
        lambda path: write(path, "{{ 'You are a model.' }}"),
        Level.FAILURE,
        "it drops the user's message",
    ),
    "the template of another model": (
        lambda path: write(path, OTHER_FAMILY),
        Level.FAILURE,
        "<|head|>, <|tail|> around turns, which the vocabulary does not have",
    ),
    "a turn marker of the wrong type": (
        lambda path: write(path, tokens=retype("<|im_start|>", TokenType.NORMAL)),
        Level.FAILURE,
        "the vocabulary has <|im_start|> as ordinary text",
    ),
    "a marker of calls of the wrong type": (
        lambda path: write(path, tokens=retype("<tool_call>", TokenType.NORMAL)),
        Level.WARNING,
        "<tool_call>: one token each, but typed as ordinary text",
    ),
    "markers that are no tokens": (
        lambda path: write(path, tokens=load_small()),
        Level.NOTE,
        "written as text, in several tokens: <tool_call>",
    ),
    "a turn whose end does not end generation": (
        lambda path: write(path, HERMES.replace("<|im_end|>", "<|fin|>"), rename_end()),
        Level.WARNING,
        "the template ends turns with '<|fin|>', which does not end generation",
    ),
    "an end token beyond the vocabulary": (
        lambda path: patch(write(path), "tokenizer.ggml.eos_token_id", 99_999),
        Level.FAILURE,
        "eos_token_id is 99,999, but there are",
    ),
    "more layers than tensors": (
        lambda path: patch(write(path), "qwen3.block_count", 2),
        Level.FAILURE,
        "block_count is 2, but there are tensors of 1 layers",
    ),
    "no end token": (
        lambda path: write_header(path, "qwen3", TOKENS, eos=False),
        Level.WARNING,
        "the file does not state which token ends a text",
    ),
    "the vocabulary of Qwen on the architecture of Llama": (
        lambda path: write_header(path, "llama", replace(TOKENS, pre="qwen2")),
        Level.WARNING,
        "the vocabulary is that of Qwen (tokenizer.ggml.pre is qwen2), the architecture that of "
        "Llama 3 (llama)",
    ),
    "a vocabulary alone": (
        lambda path: write_header(path, "qwen3", TOKENS),
        Level.WARNING,
        "no weights",
    ),
}


def find(diagnosis: Diagnosis, text: str) -> Verdict:
    """The verdict that has this text."""
    verdicts = [verdict for answer in diagnosis.answers for verdict in answer.verdicts]
    found = [verdict for verdict in verdicts if text in verdict.text]
    assert found, "\n".join(verdict.text for verdict in verdicts)
    return found[0]


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(name: str, tmp_path: Path):
    make, level, text = BROKEN[name]
    diagnosis = examine(read_subject(str(make(tmp_path))))
    verdict = find(diagnosis, text)
    assert verdict.level is level
    assert verdict.remedy
    assert diagnosis.level >= level


def test_a_whole_file_has_no_warning(tmp_path: Path):
    diagnosis = examine(read_subject(str(write(tmp_path))))
    assert diagnosis.level <= Level.NOTE
    names = [answer.name for answer in diagnosis.answers]
    assert names == ["file", "template", "calls", "reasoning", "cache", "tokens", "machine"]
    find(diagnosis, "all present")
    find(diagnosis, "one token each: <tool_call>, </tool_call>")
    find(diagnosis, "turns end with a token that ends generation: <|im_end|>")


def test_a_file_that_is_named_after_another_quantisation(tmp_path: Path):
    told: dict[str, list[Verdict]] = {}
    for name in ("demo-Q8_0.gguf", "demo-Q4_K_M.gguf"):
        path = tmp_path / name
        path.symlink_to(embedded.PATH)
        verdicts = [*check_machine(read_subject(str(path)))]
        assert "0.01 billion weights of 8.5 bits: 100 % Q8_0" in [one.text for one in verdicts]
        told[name] = [one for one in verdicts if "its name says" in one.text]
    assert told["demo-Q8_0.gguf"] == []
    [warned] = told["demo-Q4_K_M.gguf"]
    assert warned.level is Level.WARNING
    assert warned.text.startswith("its name says Q4_K_M")
    assert warned.text.endswith("100 % Q8_0: 8.5 bits each, not about 4.5")


def split_model(folder: Path, count: int = 3) -> list[Path]:
    """A model in several parts, as llama.cpp's gguf-split names and describes them."""
    whole = gguf.GGUFReader(write(folder))
    size = -(-len(whole.tensors) // count)
    paths: list[Path] = []
    for number in range(count):
        path = folder / f"big-{number + 1:05}-of-{count:05}.gguf"
        with closing(gguf.GGUFWriter(path, arch="qwen3")) as writer:
            if number == 0:
                add_sizes(writer, replace(SMALL, n_layer=1))
                add_tokenizer(writer, TOKENS, HERMES)
            writer.add_uint16("split.no", number)
            writer.add_uint16("split.count", count)
            writer.add_int32("split.tensors.count", len(whole.tensors))
            for tensor in whole.tensors[number * size : (number + 1) * size]:
                writer.add_tensor(tensor.name, tensor.data)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
        paths.append(path)
    return paths


def test_a_split_model_is_one(tmp_path: Path):
    first, *_ = split_model(tmp_path)
    split = examine(read_subject(str(first)))
    whole = examine(read_subject(str(tmp_path / "model.gguf")))
    assert find(split, "all present, in 3 files").level is Level.OK
    assert find(split, "billion weights") == find(whole, "billion weights")
    assert split.level == whole.level


def test_parts_that_are_missing_or_damaged(tmp_path: Path):
    first, second, third = split_model(tmp_path)
    verdict = find(examine(read_subject(str(second))), "this is part 2 of 3")
    assert "-00001-of-00003" in verdict.remedy
    cut(third, third.stat().st_size - 100)
    verdict = find(examine(read_subject(str(first))), f"{third.name} is truncated")
    assert verdict.level is Level.FAILURE
    cut(third, 20)
    assert (
        find(examine(read_subject(str(first))), f"{third.name} is damaged").level is Level.FAILURE
    )
    third.unlink()
    verdict = find(
        examine(read_subject(str(first))), "the first of 3 parts, and 2 are in its folder"
    )
    assert verdict.level is Level.FAILURE
    third.write_bytes(second.read_bytes())
    verdict = find(examine(read_subject(str(first))), "split.tensors.count")
    assert verdict.level is Level.FAILURE


def test_a_bos_that_stands_there_twice(tmp_path: Path):
    tokens = with_markers(TOKENS, ["<|bos|>"], TokenType.CONTROL)
    tokens = replace(tokens, bos=tokens.id_of("<|bos|>"))
    path = write(tmp_path, "{{ bos_token }}" + HERMES, tokens)
    key = b"tokenizer.ggml.add_bos_token"
    data = bytearray(path.read_bytes())
    data[data.index(key) + len(key) + 4] = 1
    path.write_bytes(data)
    verdict = find(examine(read_subject(str(path))), "the tokenizer is set to add it")
    assert verdict.level is Level.NOTE


def test_sizes_of_types_are_those_of_gguf():
    known = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    for number, (name, numbers, size) in TYPES.items():
        assert known[number] == (numbers, size), name
        assert gguf.GGMLQuantizationType(number).name == name


def test_contents_are_those_that_gguf_reads():
    contents = read_demo()
    reader = gguf.GGUFReader(embedded.PATH)
    assert contents.damage == ""
    assert [t.name for t in contents.tensors] == [t.name for t in reader.tensors]
    assert [count_bytes(t) for t in contents.tensors] == [t.n_bytes for t in reader.tensors]
    assert [t.offset + contents.data for t in contents.tensors] == [
        t.data_offset for t in reader.tensors
    ]
    assert contents.size == Path(embedded.PATH).stat().st_size


@given(length=st.integers(0, 60_000))
def test_a_file_that_breaks_off_anywhere_is_read_as_far_as_it_goes(
    tmp_path_factory: pytest.TempPathFactory, length: int
):
    path = tmp_path_factory.getbasetemp() / "cut.gguf"
    path.write_bytes(DEMO[:length])
    contents = read_contents(path, VOCABULARY)
    assert contents.size == length
    whole = read_demo()
    assert contents.damage or contents.tensors == whole.tensors
    for key, value in contents.metadata.items():
        assert whole.metadata[key] == value
