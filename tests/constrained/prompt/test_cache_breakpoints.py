"""Boundaries after the first messages of a prompt: what is computed of them is kept."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.decode.kv.snapshots import Cache
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import RequestError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.compiler import Compiler
from constrained.prompt.cache_breakpoints import MAX_BREAKPOINTS, TokenizedPrompt
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.special_tokens import Prompt
from tests.templates import FOLDER, HERMES, PAINT, PING, QWEN3_CODER

BYTES = byte_vocabulary(("<|im_start|>", "<|im_end|>", "<think>", "</think>"))
MISTRAL = (FOLDER / "mistral.jinja").read_text(encoding="utf-8")
LLAMA3 = (FOLDER / "llama3_json.jinja").read_text(encoding="utf-8")
ROLES = ("user", "assistant")


def talk(*texts: str, system: str = "Be brief.") -> list[dict[str, Any]]:
    messages = [{"role": ROLES[n % 2], "content": text} for n, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *messages]


def spelled(turn: CompiledTurn, count: int) -> str:
    return turn.vocabulary.text(turn.tokens[:count]).decode()


@pytest.mark.parametrize("source", [HERMES, QWEN3_CODER, MISTRAL, LLAMA3])
@settings(max_examples=40)
@given(
    texts=st.lists(st.text("aé <", min_size=1, max_size=6), min_size=1, max_size=7), data=st.data()
)
def test_boundaries_spell_the_prompt_up_to_there(
    source: str, texts: list[str], data: st.DataObject
) -> None:
    messages = talk(*texts[: len(texts) - 1 + len(texts) % 2])
    points = data.draw(st.lists(st.integers(0, len(messages)), max_size=6))
    compiler = Compiler(BYTES, ChatTemplate(source))
    turn = compiler.compile(Job(messages, breakpoints=tuple(points)))
    found = turn.prompt.breakpoints
    assert list(found.places) == sorted({*found.places})
    assert all(0 < at <= len(turn.tokens) for at in found.places)
    assert not found.shared or found.shared in found.places
    assert len(found.places) <= MAX_BREAKPOINTS + 1
    for at in found.places:
        assert turn.prompt.text.startswith(spelled(turn, at))
    closed = ChatTemplate(source).render(messages, add_generation_prompt=False)
    assert spelled(turn, found.closed) == closed
    last = [p for p in points if p][-1:]
    if source is HERMES and last:
        (count,) = last
        part = compiler.compile(Job(messages, breakpoints=(count,)))
        written = ChatTemplate(HERMES).render(messages[:count], add_generation_prompt=False)
        end = part.prompt.breakpoints.places[-1]
        assert spelled(part, end) == written or end == part.prompt.breakpoints.shared


def test_none_are_asked_for() -> None:
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    turn = compiler.compile(Job(talk("a", "b", "c")))
    found = turn.prompt.breakpoints
    assert found.places == (found.shared,)
    same = compiler.compile(Job(talk("a", "b", "c"), breakpoints=(0,)))
    assert same.prompt.breakpoints.places == (found.shared,)
    other = compiler.compile(Job([{"role": "user", "content": "a"}]))
    assert other.prompt.breakpoints.places != (0,)


def test_the_last_four_count() -> None:
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    turn = compiler.compile(Job(talk(*"abcdefg"), breakpoints=(1, 2, 3, 4, 5, 6)))
    found = turn.prompt.breakpoints
    ends = [spelled(turn, at)[-12:-11] for at in found.places if at != found.shared]
    assert ends == ["b", "c", "d", "e"]


def test_a_part_that_the_template_refuses_has_none() -> None:
    """Qwen3.5 and others want a message of the user."""
    source = "{%- if messages|length == 2 %}{{ raise_exception('no') }}{% endif %}" + HERMES
    compiler = Compiler(BYTES, ChatTemplate(source))
    turn = compiler.compile(Job(talk("a", "b", "c"), breakpoints=(2, 3)))
    found = turn.prompt.breakpoints
    assert len([at for at in found.places if at != found.shared]) == 1


@pytest.mark.parametrize(
    ("points", "where"),
    [((1, 3), "/breakpoints/1"), ((-1,), "/breakpoints/0"), ((True,), "/breakpoints/0"), ("1", "")],
)
def test_bad_breakpoints(points: Any, where: str) -> None:
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    with pytest.raises(RequestError) as info:
        compiler.compile(Job(talk("a"), breakpoints=points))
    assert (info.value.where or "").startswith(where or "/breakpoints")


def test_behind_a_turn_that_the_model_wrote_otherwise() -> None:
    """The tokens of the turn are not those of the template: what is after is counted back."""
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    first = compiler.compile(Job(talk("a")))
    written = first.vocabulary.encode_marked("<think>\nHm.\n</think>\n\nYes.", first.markers)
    compiler.keep(first, written, {"role": "assistant", "content": "Yes."})
    messages = [*talk("a", "Yes.", "And", "No", "So?")]
    turn = compiler.compile(Job(messages, breakpoints=(1, 2, 4, 5)))
    assert turn.prompt.reuse.turn
    found = turn.prompt.breakpoints
    ends = [spelled(turn, at) for at in found.places if at != found.shared]
    assert ends[0].endswith("Be brief.<|im_end|>\n")
    assert ends[1].endswith("user\na<|im_end|>\n")
    assert ends[2].endswith("Yes.<|im_end|>\n<|im_start|>user\nAnd<|im_end|>\n")
    assert "Hm." in ends[2]
    assert ends[3].endswith("assistant\nNo<|im_end|>\n")


def test_spaces_of_sentencepiece_and_a_bos_do_not_count() -> None:
    tokens = [0, 1, 2, 3, 2]
    vocabulary = byte_vocabulary()
    names = (b"<s>", b" Hello", b" world", b"!")
    vocabulary = type(vocabulary)(
        names, {0: "<s>"}, frozenset({0}), (0,), vocabulary.encode, vocabulary.encode_special, 0
    )

    def write(messages: Any) -> Prompt:
        return Prompt(({1: "Hello", 2: "Helloworld!", 3: "Helloworl", 4: "Other"}[len(messages)],))

    messages: Any = [{}] * 4

    def find(count: int, tokens: list[int], reused: int) -> set[int]:
        prompt = TokenizedPrompt(
            text="Helloworld! world", tokens=tuple(tokens), reused=reused, vocabulary=vocabulary
        )
        return prompt.find_breakpoints([count], messages, write)

    assert [find(count, tokens, 0) for count in range(1, 5)] == [{2}, {4}, {2}, set()]
    assert [find(count, [3, *tokens[2:]], 1) for count in (1, 2)] == [{1}, {3}]


class Counting(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__(BYTES, random_logits(BYTES), context_length=8000, max_sequences=1)
        self.computed = 0

    def decode(self, chunks: Any) -> Any:
        self.computed += sum(len(chunk.tokens) for chunk in chunks if isinstance(chunk, Chunk))
        return super().decode(chunks)


def test_conversations_that_alternate_are_restored_from_their_boundaries() -> None:
    """One sequence, two sets of tools and system messages: each finds its own again."""
    engine = Counting()
    kinds = [("You are a poet. " * 20, [PING]), ("You are a cook. " * 20, [PAINT])]
    documents = "A long document. " * 20
    with Model(engine, ChatTemplate(HERMES), cache=Cache(1 << 20)) as model:
        known = list[float]()
        for number in range(6):
            system, tools = kinds[number % 2]
            messages = talk(documents, "Read.", f"Question {number}?", system=system)
            options: Any = {"max_tokens": 8, "sampling": Sampling(temperature=0)}
            reply = model.call(
                messages, tools, tool_choice="none", breakpoints=[1, 2, 3], **options
            )
            usage = reply.usage
            known.append(usage.cached_tokens / usage.prompt_tokens)
        assert known[0] < 0.1
        assert min(known[2:]) > 0.9
        assert model.metrics().hits >= 4
