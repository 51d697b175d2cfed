"""The last token of a text that a turn goes on with is the model's to choose."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.decode.filters.written_prefill import WrittenPrefill
from constrained.decode.token_healing import TokenHealing, count_healed, find_spellings, spell_along
from constrained.decode.turn_part import TurnView
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import build_tokenizer
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import ContentDelta
from tests.constrained.decode.word_vocabulary import MARKERS, make_vocabulary
from tests.templates import HERMES, PING

USER = {"role": "user", "content": "Hi."}


VOCABULARY = make_vocabulary()


class Engine(ScriptedEngine):
    """Wants to write a text after the prompt, in the longest tokens."""

    def __init__(self, script: str):
        self.first_draft = 1 << 30

        def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
            start = VOCABULARY.text(tokens).rfind(b"assistant\n") + len("assistant\n")
            sizes = np.cumsum([len(VOCABULARY.tokens[token]) for token in tokens])
            first = int(np.searchsorted(sizes, start)) + 1
            return scripted_logits(VOCABULARY, script, first)(sequence, tokens)

        super().__init__(VOCABULARY, logits)

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        drafts = [c.position + len(c.tokens) - c.wanted + 1 for c in chunks if c.wanted > 1]
        self.first_draft = min([self.first_draft, *drafts])
        return super().decode(chunks)


def go_on(script: str, text: str, **options: Any) -> tuple[Reply, list[int]]:
    with Model(Engine(script), ChatTemplate(HERMES)) as model:
        messages = [USER, {"role": "assistant", "content": text}]
        sampling = Sampling(temperature=0)
        stream = model.stream(messages, prefill=True, sampling=sampling, **options)
        told = "".join(event.text for event in stream if isinstance(event, ContentDelta))
        assert told == stream.result.content
        held = model._runner._schedule._sequences.tokens(0)
        return stream.result, list(held)


@pytest.mark.parametrize("tools", [[], [PING]])
@pytest.mark.parametrize(
    "text", ["Hello", "Hello w", "Hello wo", "Hello wor", "Hello worl", "Hello world"]
)
def test_the_model_writes_its_own_tokens(text: str, tools: list[Any]) -> None:
    reply, held = go_on("Hello world!", text, tools=tools)
    assert text + reply.content == "Hello world!"
    (word,) = VOCABULARY.encode(" world")
    if text in ("Hello wor", "Hello worl"):  # " worl" is two tokens, " world" is one
        assert word in held
    assert not {*VOCABULARY.encode(" wor")} & {*held}


def test_a_text_that_the_model_would_not_have_gone_on_with() -> None:
    reply, _ = go_on("Hello world!", "Hel lo")
    assert reply.finish_reason == "stop"
    assert reply.content == ""


@pytest.mark.parametrize("text", ["\n{", '\n{"', "{", " [", "\n[1", "\n\n-"])
def test_an_answer_that_the_client_has_begun_goes_on(text: str) -> None:
    """The model writes all of the prefill again, which begins with white space."""
    answer = {"anyOf": [{"type": ["integer", "array"]}, {"type": "object"}]}
    format = {"type": "json_schema", "json_schema": {"schema": answer}}
    whole = {"{": '{"a": 1}', "[": "[1.5]", "-": "-12"}[text.strip()[0]]
    script = text[: len(text) - len(text.lstrip())] + whole
    reply, _ = go_on(script, text, response_format=format)
    assert text + reply.content == script


def test_text_does_not_become_a_marker() -> None:
    """The model would like to complete it: but the marker is another thing than its name."""
    script = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    reply, held = go_on(script, "<", tools=[PING])
    assert reply.calls == ()
    assert VOCABULARY.marker("<tool_call>") not in held[-30:]
    assert not reply.content.startswith("tool_call>")


def test_nothing_is_steered_behind_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most likely token is taken at once there, whatever the text might have become."""
    written = list[bytes]()
    steer = TokenHealing.steer

    def watch(part: TokenHealing, logits: np.ndarray, turn: TurnView) -> None:
        written.append(bytes(turn.transcript.data))
        steer(part, logits, turn)

    monkeypatch.setattr(TokenHealing, "steer", watch)
    reply, _ = go_on("<tool box is open", "<", tools=[PING])
    assert reply.content == "tool box is open"
    assert written == [b"", b"<tool"]


def test_no_drafts_while_the_text_is_healed() -> None:
    """A character of four tokens that the prompt has, too: three are enough to copy the others."""
    engine = Engine("🙂🙂🙂 a b c")
    user = {"role": "user", "content": "🙂🙂🙂 a b c"}
    with Model(engine, ChatTemplate(HERMES)) as model:
        job = Job([user, {"role": "assistant", "content": "🙂"}], prefill=True)
        turn = model.compile(job)
        assert turn.prefill.rest == "🙂".encode()
        model.complete([turn], sampling=Sampling(temperature=0))
    assert engine.first_draft >= len(turn.tokens) + 4
    assert engine.first_draft < len(turn.tokens) + 10


def test_when_the_text_is_whole() -> None:
    healing = TokenHealing(WrittenPrefill(healed=" wor"), VOCABULARY)
    assert [healing.is_over(data) for data in (b"", b" wo", b" wor", b" world")] == [
        *[False] * 2,
        *[True] * 2,
    ]
    assert TokenHealing(WrittenPrefill(), VOCABULARY).is_over(b"")


def test_how_much_of_a_text_is_the_models_to_choose() -> None:
    def count(text: str) -> int:
        return count_healed(VOCABULARY.encode(text), VOCABULARY)

    assert count("Hello wor") == count("Hello world") == count("Hello") == 1
    assert count("Hello worl") == 2  # " wor" and "l"
    assert count("Hello wo") == 2  # " w" and "o"
    assert count("xyz") == count("z") == 1
    assert count("Hello x") == 1  # no token is " x" and more
    assert count("Hel") == 3
    assert count("</") == 1  # a marker is no text


def at(written: bytes) -> Any:
    return SimpleNamespace(transcript=SimpleNamespace(data=written))


def texts(tokens: Any) -> set[bytes]:
    return {VOCABULARY.tokens[int(token)] for token in tokens}


def test_what_spells_a_text() -> None:
    assert texts(find_spellings(b" wo", VOCABULARY)) == {b" ", b" w", b" wor", b" world"}
    assert texts(find_spellings(b"<t", VOCABULARY)) == {b"<", b"<tool"}  # and not the marker
    assert texts(find_spellings("é".encode(), VOCABULARY)) == {"é".encode()[:1]}
    assert texts(find_spellings(b"</s", VOCABULARY)) == {b"<"}  # and not the end token


def test_steering_is_in_place_and_draws_among_the_rest() -> None:
    healing = TokenHealing(WrittenPrefill(healed="lo w"), VOCABULARY)
    logits = np.zeros(len(VOCABULARY.tokens), np.float32)
    healing.steer(logits, at(b""))
    assert texts(np.flatnonzero(np.isfinite(logits))) == {b"l", b"lo"}
    logits = np.zeros(len(VOCABULARY.tokens), np.float32)
    logits[VOCABULARY.encode(" world")] = -np.inf  # the mask forbids it
    healing.steer(logits, at(b"lo"))
    assert texts(np.flatnonzero(np.isfinite(logits))) == {b" ", b" w", b" wor"}


def test_half_a_marker_stays_text() -> None:
    healing = TokenHealing(WrittenPrefill(healed="<t", marker_suffixes=("ool_call>",)), VOCABULARY)

    def allowed(written: bytes) -> set[bytes]:
        logits = np.zeros(len(VOCABULARY.tokens), np.float32)
        healing.steer(logits, at(written))
        return texts(np.flatnonzero(np.isfinite(logits)))

    everything = {*VOCABULARY.tokens}
    assert allowed(b"") == {b"<", b"<tool"}
    assert allowed(b"<tool") == everything - {b"_call>"}
    assert allowed(b"<tool_call") == everything - {b">"}
    assert allowed(b"<tool_calls") == allowed(b"<tool ") == everything
    logits = np.full(len(VOCABULARY.tokens), -np.inf, np.float32)
    logits[ord(">")] = 0
    with pytest.raises(GrammarError, match="cannot be continued"):
        healing.steer(logits, at(b"<tool_call"))


def test_nothing_left_is_an_error() -> None:
    logits = np.zeros(len(VOCABULARY.tokens), np.float32)
    logits[[*find_spellings(b"lo", VOCABULARY)]] = -np.inf
    with pytest.raises(GrammarError, match="cannot be continued"):
        TokenHealing(WrittenPrefill(healed="lo"), VOCABULARY).steer(logits, at(b""))


@pytest.mark.parametrize(
    ("written", "tokens", "fits"),
    [
        (b"", VOCABULARY.encode("lo") + VOCABULARY.encode("x"), True),
        (b"l", VOCABULARY.encode("ox"), True),
        (b"lo", VOCABULARY.encode("x"), True),
        (b"", VOCABULARY.encode("lx"), False),
        (b"l", [256], False),
        (b"", [VOCABULARY.marker("<think>")], False),
    ],
)
def test_tokens_that_deviate_are_an_error(written: bytes, tokens: list[int], fits: bool) -> None:
    healing = TokenHealing(WrittenPrefill(healed="lo"), VOCABULARY)
    if fits:
        healing.admits(tokens, at(written))
        return
    with pytest.raises(GrammarError, match="deviates"):
        healing.admits(tokens, at(written))


def test_a_spelling_that_the_grammar_takes() -> None:
    tokenizer = build_tokenizer(VOCABULARY, MARKERS)
    free = Matcher.compile(tokenizer, "start: /Hello wor(ld|k)[!?]/")
    fork = free.fork()
    assert spell_along(fork, b"Hello wor", VOCABULARY) == VOCABULARY.encode("Hello wor")
    assert fork.count_accepted(VOCABULARY.encode("ld!")) == 2
    assert spell_along(free.fork(), b"", VOCABULARY) == []
    assert spell_along(free.fork(), b"Hi", VOCABULARY) is None
    forced = Matcher.compile(tokenizer, 'start: "Hello world" /[!?]/')
    assert spell_along(forced, b"Hello wor", VOCABULARY) == VOCABULARY.encode("Hello world")
    assert forced.count_accepted(VOCABULARY.encode("!")) == 1
