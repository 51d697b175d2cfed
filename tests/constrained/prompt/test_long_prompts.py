"""A prompt that the context has no room for is refused before work is put into it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from constrained.errors import ContextError, check_count
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job
from constrained.prompt.prompts import check_text
from constrained.prompt.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES, scripted
from tests.templates import HERMES, PING

LENGTH = 1_000  # tokens
HINT = r"Shorten the conversation or the tools, or raise the context length \(-c\)"


class Encoder:
    """Notes what is encoded."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str, *, inside: bool = False) -> list[int]:
        self.texts.append(text)
        return BYTES.encode_special(text, inside=inside)


@pytest.fixture
def encoder() -> Encoder:
    return Encoder()


@pytest.fixture
def compiler(encoder: Encoder) -> Compiler:
    vocabulary = replace(BYTES, encode_special=encoder)
    return Compiler(vocabulary, ChatTemplate(HERMES), context_length=LENGTH)


def says(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_the_longest_token_may_be_a_name() -> None:
    assert BYTES.longest == len("</s>")
    names = {**BYTES.names, 7: "<|a name|>"}
    assert replace(BYTES, names=names).longest == len("<|a name|>")
    longer = replace(BYTES, tokens=(*BYTES.tokens, "é".encode() * 20))
    assert longer.longest == 40


def test_the_bound_is_exact() -> None:
    check_text("é" * 6, BYTES, 3)
    with pytest.raises(ContextError, match=rf"in 3 tokens or more \(13 bytes\). {HINT}"):
        check_text("é" * 6 + "x", BYTES, 3)
    check_text("é" * 100, BYTES, None)
    check_text("\ud800", BYTES, 3)  # whoever encodes it says what is wrong
    check_count(2, 3)
    check_count(10**9, None)
    with pytest.raises(ContextError, match=f"resulted in 3 tokens. {HINT}"):
        check_count(3, 3)


LONG = "x" * (4 * LENGTH)
TOO_LONG: list[Callable[[Compiler], Any]] = [
    lambda compiler: compiler.compile(Job([says(LONG)])),
    lambda compiler: compiler.compile(Job([says("Hi"), {"role": "assistant", "content": LONG}])),
    lambda compiler: compiler.compile(Job([says("Hi")], [PING | {"x": LONG}])),
    lambda compiler: compiler.compile_text(LONG + "x"),
]


@pytest.mark.parametrize("ask", TOO_LONG)
def test_a_text_that_is_far_too_long_is_never_encoded(
    ask: Callable[[Compiler], Any], compiler: Compiler, encoder: Encoder
) -> None:
    with pytest.raises(ContextError, match=r"is 1000 tokens.* in \d+ tokens or more"):
        ask(compiler)
    assert not encoder.texts
    assert compiler.compile(Job([says("Hi")])).tokens
    assert encoder.texts


@pytest.mark.parametrize("name", ["content", "reasoning_content"])
def test_a_text_to_go_on_with_is_never_encoded(name: str) -> None:
    encoded = list[str]()

    def encode(text: str, markers: Any = None) -> list[int]:
        encoded.append(text)
        return BYTES.encode(text)

    vocabulary = replace(BYTES, encode=encode)
    compiler = Compiler(vocabulary, ChatTemplate(HERMES), context_length=LENGTH)
    message = {"role": "assistant", "content": "", name: LONG + "x"}
    with pytest.raises(ContextError, match=r"in 1000 tokens or more \(4001 bytes"):
        compiler.compile(Job([says("Hi"), message], prefill=True))
    assert LONG + "x" not in encoded


def test_a_prompt_that_only_just_does_not_fit_can_be_counted(compiler: Compiler) -> None:
    text = "y" * LENGTH
    assert len(compiler.compile(Job([says(text)])).tokens) > LENGTH


def test_a_raw_prompt_of_too_many_tokens(compiler: Compiler) -> None:
    text = "y" * LENGTH
    with pytest.raises(ContextError, match=r"is 1000 tokens.* in 1000 tokens"):
        compiler.compile_text(text)
    with pytest.raises(ContextError, match=r"is 1000 tokens.* in 1000 tokens"):
        compiler.compile_text([ord("y")] * LENGTH)
    assert len(compiler.compile_text(text[1:]).tokens) == LENGTH - 1


def test_without_a_context_any_prompt_is_compiled() -> None:
    turn = Compiler(BYTES, ChatTemplate(HERMES)).compile(Job([says(LONG * 10)]))
    assert len(turn.tokens) > 10 * len(LONG)


def test_a_model_knows_its_context() -> None:
    with scripted("Hi.") as model:
        for ask in (
            lambda: model.call("x" * 100_000),
            lambda: model.compile(Job([says("x" * 100_000)])),
            lambda: model.compile_text("x" * 100_000),
        ):
            with pytest.raises(ContextError, match="context length is 20000"):
                ask()
        assert model.call("x").content == "Hi."
