"""A draft model changes how often the model runs, and nothing else."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.decode.drafts.draft_model import DraftModel, check_vocabulary
from constrained.decode.drafts.draft_options import DraftOptions
from constrained.decode.request import DecodeOptions, Generation, Request
from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.scheduler import Schedule
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.model_files import embedded
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ContextError, ModelError, RequestError
from constrained.loading import load
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from tests.constrained.decode.drafts.draft_requests import Wishes
from tests.replies import uncounted
from tests.scripted_model import BYTES
from tests.templates import HERMES as TEMPLATE
from tests.templates import hermes_call, tool

GREEDY = Sampling(temperature=0)
NOTE = tool("note", {"text": {"type": "string"}, "urgent": {"type": "boolean"}})
SAID = "Zebras quickly jump over lazy foxes"
ASKED = "Please write something."
TIMED, TIMED_TOKENS = 3, 33  # decodes of a draft model before it is asked, and their tokens
OPTIONS = DraftOptions("d.gguf")


class Clock:
    """A clock that models move: how much is drafted depends on times, which differ on a busy
    machine."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Sized(Wishes):
    """A model that would like to write texts, and counts what it reads.

    Args:
        texts: in this order.
        noise: of its logits.
        vocabulary: may have more tokens than there are bytes.

    Attributes:
        clock: its decodes move it; None: they take no time.
        seconds: of a decode, and of each token in it.
    """

    def __init__(self, *texts: str, noise: float = 0.0, vocabulary: Vocabulary = BYTES):
        super().__init__()
        self.texts, self.noise = texts, noise
        self.vocabulary = vocabulary
        self.decodes = 0
        self.failure: Exception | None = None
        self.clock: Clock | None = None
        self.seconds = 0.1, 0.001

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self.decodes += 1
        if self.clock is not None:
            decode, token = self.seconds
            self.clock.now += decode + token * sum(len(chunk.tokens) for chunk in chunks)
        if self.failure is not None:
            raise self.failure
        return super().decode(chunks)

    def _like(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        if len(tokens) <= TIMED_TOKENS:
            return np.zeros(len(self.vocabulary.tokens), np.float32)
        unused = len(self.vocabulary.tokens) - len(BYTES.tokens)
        return np.pad(super()._like(sequence, tokens), (0, unused), constant_values=-9)


def attach(
    target: Sized, draft: Sized, clock: Clock, *, token_seconds: float = 0.0001
) -> DraftModel:
    """The draft model of another, ten times as fast; both move the clock."""
    target.clock = draft.clock = clock
    draft.seconds = 0.01, token_seconds
    return DraftModel(draft, target.vocabulary, OPTIONS, clock=clock)


def call(text: str, urgent: bool) -> str:
    return hermes_call("note", json.dumps({"text": text, "urgent": urgent}))


def ask(target: Sized, draft: Sized | None, asked: str = ASKED, **options: Any) -> Reply:
    """The reply of a model, with that draft model."""
    clock = Clock()
    drafting = None if draft is None else attach(target, draft, clock)
    with Model(target, ChatTemplate(TEMPLATE), draft_model=drafting, clock=clock) as model:
        options = {"sampling": GREEDY, "max_tokens": 200} | options
        return model.call(asked, [NOTE], **options)


def test_a_draft_model_that_agrees_saves_most_passes() -> None:
    text = call(SAID, True)
    plain = ask(Sized(text), None)
    drafted = ask(Sized(text), Sized(text))
    assert uncounted(drafted) == uncounted(plain)
    assert drafted.calls[0].arguments == {"text": SAID, "urgent": True}
    assert 2 * drafted.usage.forward_passes < plain.usage.forward_passes
    assert drafted.usage.accepted_tokens > len(SAID) / 2


def test_a_draft_model_that_is_wrong_costs_little() -> None:
    text = call(SAID, True)
    plain = ask(Sized(text), None)
    drafted = ask(Sized(text), Sized(call("a quite different text than that one", False)))
    assert uncounted(drafted) == uncounted(plain)
    wasted = drafted.usage.drafted_tokens - drafted.usage.accepted_tokens
    assert wasted < 20


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_replies_are_the_same(data: st.DataObject) -> None:
    words = st.sampled_from([SAID, "Good", "Zebras", "Quickly jump over", '"quoted"'])
    texts = [call(data.draw(words), data.draw(st.booleans())) for _ in range(2)]
    others = data.draw(st.permutations(texts))
    noise = data.draw(st.sampled_from([0.0, 3.0, 8.0]))
    temperature = data.draw(st.sampled_from([0.0, 1.0]))
    max_tokens = data.draw(st.integers(90, 200))
    options: dict[str, Any] = {
        "sampling": Sampling(temperature=temperature, seed=data.draw(st.integers(0, 99))),
        "max_tokens": max_tokens,
        "tool_choice": data.draw(st.sampled_from(["auto", "required"])),
    }
    plain = ask(Sized(*texts, noise=noise), None, **options)
    drafted = ask(Sized(*texts, noise=noise), Sized(*others, noise=noise), **options)
    assert uncounted(drafted) == uncounted(plain)


def test_a_closed_model_closes_its_draft_model() -> None:
    text = call(SAID, False)
    target, draft = Sized(text), Sized(text)
    drafting = attach(target, draft, Clock())
    with Model(target, ChatTemplate(TEMPLATE), draft_model=drafting) as model:
        for number in (1, 2, 1):
            asked = f"{ASKED} {number}"
            reply = model.call(asked, [NOTE], sampling=GREEDY)
            assert reply.calls[0].arguments["text"] == SAID
    with pytest.raises(ModelError, match="closed"):
        draft.decode([Chunk(0, [65], 0)])


def run_together(
    target: Sized, draft: Sized, asked: Sequence[str], clock: Clock
) -> list[Generation]:
    """Turns that begin in the same step, with drafts."""
    drafting = attach(target, draft, clock)
    target.splits_uneven = True  # then even short drafts pay
    with Model(Sized(*target.texts), ChatTemplate(TEMPLATE)) as model:
        messages = [[{"role": "user", "content": text}] for text in asked]
        turns = [model.compile(Job(one, [NOTE])) for one in messages]
    options = DecodeOptions(max_tokens=300, sampling=GREEDY)
    schedule = Schedule(target, clock=clock, draft_model=drafting)
    seats = [Seat(Request(turn.make_input(), options)) for turn in turns]
    for seat in seats:
        schedule.add(seat)
    while not schedule.is_idle:
        schedule.step()
    return [seat.result.result() for seat in seats]


def test_one_decode_of_the_draft_model_is_for_all_turns() -> None:
    text = call(SAID, False)
    decodes: list[int] = []
    for count in (1, 4):
        draft = Sized(text)
        asked = [f"{ASKED} {number}" for number in range(count)]
        written = run_together(Sized(text), draft, asked, Clock())
        assert {one.text for one in written} == {text}
        assert all(one.usage.accepted_tokens for one in written)
        decodes.append(draft.decodes)
    # A step has room for 12 drafted tokens; four turns share it.
    assert decodes[1] < 2 * decodes[0]


def test_reading_a_prompt_is_not_charged_to_the_drafts() -> None:
    text = call(SAID * 5, True)
    passes: list[int] = []
    for prompt in (ASKED, "Nothing. " * 200):
        reply = ask(Sized(text), Sized(text), prompt, max_tokens=400)
        passes.append(reply.usage.forward_passes)
    # The steps in which the draft model reads the long prompt, 512 tokens in each.
    assert passes[1] <= passes[0] + 20


@pytest.mark.parametrize(("numbers", "is_read"), [(30, False), (300, True)])
def test_a_prompt_is_read_if_the_reply_is_long_enough(numbers: int, is_read: bool) -> None:
    text = call(" ".join(map(str, range(numbers))), True)
    target, draft = Sized(text), Sized(text)
    clock = Clock()
    # Reading the prompt takes as long as some 300 decodes of the target.
    drafting = attach(target, draft, clock, token_seconds=0.02)
    prompt = "Nothing. " * 100
    with Model(target, ChatTemplate(TEMPLATE), draft_model=drafting, clock=clock) as model:
        reply = model.call(prompt, [NOTE], sampling=GREEDY, max_tokens=1500)
    assert reply.calls[0].arguments["urgent"] is True
    assert (draft.decodes > TIMED) == is_read, reply.usage


def test_a_long_prompt_takes_no_drafts_from_other_turns() -> None:
    text = call(SAID * 3, True)
    (alone,) = run_together(Sized(text), Sized(text), [ASKED], Clock())
    long = "Nothing. " * 400
    _, beside = run_together(Sized(text), Sized(text), [long, ASKED], Clock())
    assert beside.text == alone.text == text
    assert beside.usage.accepted_tokens > alone.usage.accepted_tokens / 2


class Narrow(Sized):
    """A model whose sequences share a context, which has room for two of the turns below."""

    cells = 1900

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        coming = sum(len(chunk.tokens) for chunk in chunks)
        if coming + sum(map(len, self._tokens)) > self.cells:
            raise ContextError("full")
        return super().decode(chunks)


def test_a_context_that_is_full_leaves_drafts_for_some() -> None:
    text = call(SAID * 3, True)
    draft = Narrow(text)
    asked = ["Nothing. " * 25 + str(number) for number in range(3)]
    written = run_together(Sized(text), draft, asked, Clock())
    assert {one.text for one in written} == {text}
    assert sum(one.usage.accepted_tokens > len(text) / 3 for one in written) >= 2


@pytest.mark.parametrize("error", [ModelError("broken"), ContextError("full")])
def test_a_draft_model_that_fails_is_left(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    text = call(SAID, True)
    target, draft, clock = Sized(text), Sized(text), Clock()
    drafting = attach(target, draft, clock)
    draft.failure = error
    with Model(target, ChatTemplate(TEMPLATE), draft_model=drafting, clock=clock) as model:
        reply = model.call(ASKED, [NOTE], sampling=GREEDY, max_tokens=200)
    assert reply.calls[0].arguments["text"] == SAID
    assert reply.usage == ask(Sized(text), None).usage
    assert ("the draft model failed" in caplog.text) == isinstance(error, ModelError)


def test_a_prompt_beyond_the_context_of_the_draft_model_is_not_drafted() -> None:
    text = call(SAID, True)
    draft = Sized(text)
    draft.context_length = 50
    assert ask(Sized(text), draft).calls[0].arguments["text"] == SAID
    assert draft.decodes == TIMED


def test_a_long_prompt_is_read_in_parts() -> None:
    text = call(SAID, True)
    draft = Sized(text)
    reply = ask(Sized(text), draft, "Nothing. " * 200)
    assert reply.usage.accepted_tokens > 0


def pad(vocabulary: Vocabulary, count: int) -> Vocabulary:
    return replace(vocabulary, tokens=(*vocabulary.tokens, *[b""] * count))


@pytest.mark.parametrize(("ours", "theirs"), [(3, 0), (0, 3), (2, 5)])
def test_unused_tokens_at_the_end_may_differ(ours: int, theirs: int) -> None:
    text = call(SAID, True)
    target = Sized(text, vocabulary=pad(BYTES, theirs))
    draft = Sized(text, vocabulary=pad(BYTES, ours))
    assert ask(target, draft).usage.accepted_tokens > 0


def test_another_vocabulary_is_refused() -> None:
    other = replace(BYTES, tokens=(*BYTES.tokens[:65], b"B", *BYTES.tokens[66:]))
    with pytest.raises(RequestError, match="token 65 is b'B', not b'A'") as refused:
        check_vocabulary(other, BYTES)
    assert refused.value.where == "/draft_model"
    longer = replace(BYTES, tokens=(*BYTES.tokens, b"word"))
    with pytest.raises(RequestError, match="a different vocabulary: 258 tokens, not 257"):
        check_vocabulary(longer, BYTES)


@pytest.mark.parametrize(
    "options", [{"most": 0}, {"least_probability": 1.5}, {"gpu_layers": -2}], ids=str
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="must be"):
        DraftOptions("d.gguf", **options)


def test_a_draft_model_that_is_as_slow_reads_nothing() -> None:
    text = call(SAID, True)
    ticks = itertools.count()
    target, draft = Sized(text), Sized(text)
    drafting = DraftModel(draft, target.vocabulary, OPTIONS, clock=lambda: float(next(ticks)))
    template = ChatTemplate(TEMPLATE)
    with Model(target, template, draft_model=drafting, clock=lambda: float(next(ticks))) as model:
        reply = model.call(ASKED, [NOTE], sampling=GREEDY, max_tokens=200)
    assert reply.calls[0].arguments["text"] == SAID
    assert draft.decodes == TIMED


def test_the_demo_model_drafts_for_itself() -> None:
    """On llama.cpp; that it is as slow as itself does not count here."""
    question = "Send Tom a note that says: see you at noon."
    options: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 60}
    with load() as plain, load(draft_model="demo", sequences=2) as drafted:
        assert drafted.engine.memory_bytes > plain.engine.memory_bytes
        expected = plain.call(question, [NOTE], **options)
        assert uncounted(drafted.call(question, [NOTE], **options)) == uncounted(expected)
    small, engine = load_engine(embedded.PATH), load_engine(embedded.PATH)
    drafting = DraftModel(small, engine.vocabulary, OPTIONS, clock=lambda: 0.0)
    assert engine.header.chat_templates
    template = ChatTemplate(engine.header.chat_templates[""])
    with Model(engine, template, draft_model=drafting) as model:
        reply = model.call(question, [NOTE], **options)
    assert uncounted(reply) == uncounted(expected)
    assert expected.usage.accepted_tokens < reply.usage.accepted_tokens


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="drafts are off"):
        load(draft_model="demo", deterministic=True)
    with pytest.raises(RequestError, match="drafts are off"):
        load(draft_model="demo", draft=False)
    with pytest.raises(RequestError, match="cannot have a draft model here"):
        load("vllm://127.0.0.1:1", draft_model="demo")
    with pytest.raises(ModelError, match="cannot be read"):
        load(draft_model=tmp_path / "missing.gguf")
