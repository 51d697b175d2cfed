"""What stands in for the engines of other projects: inert packages, a tokenizer, open prompts."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.inspect.peers.stand_ins import (
    OpenPrompt,
    StubTokenizer,
    find_open_prompt,
    find_special,
    replace_by_inert,
    skip_inits,
    supply_inert,
)
from grammars.wire.formats import FORMATS

PARSER = """
import no_torch
from no_torch.nn import functional as F
from some_engine.config import Config
from some_engine.worker import run

class Model(no_torch.nn.Module):
    size: no_torch.Tensor | None = None

@no_torch.compile
def parse(text):
    return text.upper()
"""


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_parser_is_imported_without_its_engine(modules: Path) -> None:
    package = modules / "some_engine"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('no GPU')")
    (package / "config.py").write_text("raise RuntimeError('no configuration')")
    (package / "worker.py").write_text("def run(): return 1")
    (package / "parser.py").write_text(PARSER)
    skip_inits("some_engine")
    supply_inert(["no_torch"])
    replace_by_inert(["some_engine.config"])
    from some_engine import parser  # type: ignore[import-not-found]  # pyright: ignore

    assert parser.parse("zorn") == "ZORN"
    assert parser.run() == 1
    assert parser.Model().size is None
    with pytest.raises(ModuleNotFoundError):
        skip_inits("no_engine")


def test_the_special_tokens_of_formats_are_found() -> None:
    found = {format.name: find_special(format.structure) for format in FORMATS}
    assert found["hermes"] == ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    assert found["mistral"] == ["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"]
    assert found["dsml"][0] == "｜DSML｜"
    assert "]<]minimax[>[" in found["minimax_m3"]
    assert '<|"|>' in found["gemma4"]


TAGS = ("<think>", "</think>", "<|tool|>")
TEXTS = st.lists(st.sampled_from((*TAGS, "<", "th", "ink>", "é", " "))).map("".join)


@given(TEXTS, st.lists(st.integers(0, 40)))
def test_chunks_are_whole_tokens_and_lose_nothing(text: str, cuts: list[int]) -> None:
    tokenizer = StubTokenizer(TAGS)
    places = sorted({min(cut, len(text)) for cut in cuts})
    chunks = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    moved = tokenizer.move_cuts(chunks)
    assert "".join(moved) == text
    assert all(moved)
    assert len(moved) <= len(chunks)
    assert [id for chunk in moved for id in tokenizer.encode(chunk)] == tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_tokens_that_a_parser_misses_are_named() -> None:
    tokenizer = StubTokenizer(TAGS)
    assert tokenizer.get_vocab().get("<call>") is None
    assert "<answer>" not in tokenizer.get_vocab()
    with pytest.raises(KeyError):
        tokenizer.get_vocab()["<end>"]
    assert tokenizer.missing == ["<call>", "<answer>", "<end>"]


@given(TEXTS, st.integers(0, 40))
def test_an_open_prompt_holds_the_opener(text: str, cut: int) -> None:
    prompt = OpenPrompt("<think>", "</think>")
    written = prompt.begin(text)
    assert written in (text.lstrip().removeprefix("<think>"), "</think>" + text)
    assert "".join(prompt.fit([text[:cut], text[cut:]])) == written
    assert OpenPrompt().begin(text) == text


def test_an_open_prompt_is_told_by_what_a_parser_reads() -> None:
    def read(text: str) -> str | None:
        return text.partition("</think>")[0]

    expected = OpenPrompt("<think>", "</think>")
    assert find_open_prompt(read, "<think>", "</think>", markers=["<think>"]) == expected
    plain = find_open_prompt(lambda text: None, "<think>", "</think>", markers=["<think>"])
    assert plain == OpenPrompt()
