"""Drafts change how often the model runs, and nothing else."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.decode.drafts.decode_costs import DraftCosts
from constrained.decode.drafts.prompt_lookup import PromptLookup, extend_draft
from constrained.decode.request import Finish, Generation, Request
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import Vocabulary, build_tokenizer
from constrained.errors import ContextError, Error, GrammarError
from constrained.mask.matcher import Matcher
from constrained.model.reply import Usage
from constrained.prompt.template.chat_template import ChatTemplate
from tests.constrained.decode.drafts.draft_requests import GREEDY, Wishes, ask
from tests.generation import generate
from tests.replies import uncounted
from tests.scripted_model import BYTES
from tests.templates import HERMES as TEMPLATE
from tests.templates import hermes_call, tool

SAID = "the red umbrella and the warm coat are in the blue bag"
WORDS = tuple(SAID.split())


def words(*spelled: str) -> Vocabulary:
    """The bytes, and these words, the longest of which a text is cut into."""
    tokens = (*BYTES.tokens, *(word.encode() for word in spelled))
    longest_first = sorted(range(257, len(tokens)), key=lambda t: -len(tokens[t]))

    def encode(text: str, markers: Any = None) -> list[int]:
        data = text.encode()
        made = list[int]()
        while data:
            fitting = (t for t in longest_first if data.startswith(tokens[t]))
            made.append(next(fitting, data[0]))
            data = data[len(tokens[made[-1]]) :]
        return made

    return replace(BYTES, tokens=tokens, encode=encode)


def test_what_follows_a_text_that_was_there_is_proposed() -> None:
    vocabulary = words("Take", " the", " red", " umbrella", " Take", ' "')
    drafter = PromptLookup(vocabulary.encode("say: Take the red umbrella now"), vocabulary)
    for token in vocabulary.encode('a note: "'):
        drafter.note(token, is_forced=True)
    assert drafter.propose(None, 8) == []
    drafter.note(vocabulary.encode("Take")[0], is_forced=False)  # other tokens than in the prompt
    assert vocabulary.text(drafter.propose(None, 8)) == b" the"
    drafter.note(vocabulary.encode(" the")[0], is_forced=False)
    assert vocabulary.text(drafter.propose(None, 8)) == b" red umbrella"
    assert vocabulary.text(drafter.propose(None, 1)) == b" red"


def test_a_token_that_the_copy_ends_in_is_cut_anew() -> None:
    vocabulary = words(" umbrella", "brella", "coat")
    drafter = PromptLookup(vocabulary.encode("see an umbrella, no coat"), vocabulary)
    for letter in b"see an um":
        drafter.note(letter, is_forced=False)
    assert vocabulary.text(drafter.propose(None, 2)) == b"brella,"


def test_a_word_is_not_found_inside_another_one() -> None:
    drafter = PromptLookup(BYTES.encode("a coat in a coated raincoat; "), BYTES)
    for letter in b'"coat':
        drafter.note(letter, is_forced=letter == ord('"'))
    assert BYTES.text(drafter.propose(None, 1)) == b"e"
    within = PromptLookup(BYTES.encode("a redcoat, a raincoat; "), BYTES)
    for letter in b'"coat':
        within.note(letter, is_forced=letter == ord('"'))
    assert within.propose(None, 1) == []


def test_the_draft_ends_before_a_control_token() -> None:
    drafter = PromptLookup([*BYTES.encode("the red umbrella"), BYTES.end[0]], BYTES)
    for letter in b"the red umbrel":
        drafter.note(letter, is_forced=False)
    assert BYTES.text(drafter.propose(None, 8)) == b"la"


@given(st.text("ab ", max_size=60), st.text("ab ", min_size=1, max_size=30), st.data())
def test_what_is_cut_was_never_written(prompt: str, text: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(text)))
    forced = [data.draw(st.booleans()) for _ in range(count)] + [False] * (len(text) - count)
    cut = PromptLookup(BYTES.encode(prompt), BYTES)
    fresh = PromptLookup(BYTES.encode(prompt), BYTES)
    for n, letter in enumerate(text.encode()):
        cut.note(letter, is_forced=forced[n])
        if n < count:
            fresh.note(letter, is_forced=forced[n])
    cut.rewind(count)
    assert cut.propose(None, 8) == fresh.propose(None, 8)
    for letter in b"aba":
        cut.note(letter, is_forced=letter == ord("b"))
        fresh.note(letter, is_forced=letter == ord("b"))
        assert cut.propose(None, 8) == fresh.propose(None, 8)


def test_the_grammar_cuts_a_draft_and_goes_on_behind_it() -> None:
    matcher = Matcher.compile(build_tokenizer(BYTES, ()), 'start: "say " /[a-z]+/ "; over" /[x-z]/')
    for token in b"say ":
        matcher.commit(token)
    assert bytes(extend_draft(matcher, b"red Umbrella", max_tokens=9, vocabulary=BYTES)) == b"red"
    assert (
        bytes(extend_draft(matcher, b"red; offer", max_tokens=20, vocabulary=BYTES)) == b"red; over"
    )
    assert bytes(extend_draft(matcher, b"red; offer", max_tokens=5, vocabulary=BYTES)) == b"red; "
    assert extend_draft(matcher, b"Umbrella", max_tokens=9, vocabulary=BYTES) == []
    assert matcher.count_accepted(b"coat") == 4  # it is where it was


class Copyist(ScriptedEngine):
    """Likes to go on as a text did that it has read, and now and then something else."""

    def __init__(self, room: int | None = None, stop: int = 10_000, **options: Any):
        super().__init__(BYTES, self._like, **options)
        self._room = room
        self._stop = stop
        self.computed = self.refused = 0

    def _like(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        if len(tokens) >= self._stop:
            return np.where(np.arange(len(BYTES.tokens)) == BYTES.end[0], 1.0, 0.0)
        state = [len(tokens), *tokens[-6:]]
        random = np.random.default_rng(state)
        row = random.standard_normal(len(self.vocabulary.tokens), np.float32)
        text = bytes(token for token in tokens if token < 256)
        known = (text[-size:] for size in (4, 3, 2, 1) if text[-size:] in text[:-1])
        if (start := next(known, b"")) and random.random() < 0.95:
            row[text[text.rfind(start, 0, len(text) - 1) + len(start)]] += 12
        else:
            row[text[random.integers(len(text))]] += 12
        return row

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        size = sum(map(len, self._tokens)) + sum(len(chunk.tokens) for chunk in chunks)
        if self._room is not None and size > self._room:
            self.refused += 1
            raise ContextError("the context that the sequences share is full")
        self.computed += sum(len(chunk.tokens) for chunk in chunks)
        return super().decode(chunks)


def told(generation: Generation) -> Generation:
    """The generation, whatever it took to compute it."""
    usage = replace(
        generation.usage, forward_passes=0, drafted_tokens=0, accepted_tokens=0, cached_tokens=0
    )
    return replace(generation, usage=usage)


SAMPLINGS = st.one_of(
    st.just(GREEDY), st.builds(Sampling, st.floats(0.1, 2), seed=st.integers(0, 99))
)
PROMPTS = st.lists(st.sampled_from(WORDS), min_size=2, max_size=30).map(" ".join)


@given(
    st.lists(st.tuples(PROMPTS, st.integers(1, 60), SAMPLINGS), min_size=1, max_size=4),
    st.integers(0, 12),
)
def test_what_is_written_is_the_same(
    asked: Sequence[tuple[str, int, Sampling]], max_drafted: int
) -> None:
    def write(draft: bool) -> list[Generation]:
        length = 2 * max(len(prompt) for prompt, _, _ in asked) + 40
        engine = Copyist(max_sequences=3, context_length=length, max_drafted=max_drafted)
        return generate(engine, [ask(p.encode() * 2, n, s, draft) for p, n, s in asked])

    plain, drafted = write(False), write(True)
    assert [told(g) for g in plain] == [told(g) for g in drafted]
    for one, other in zip(plain, drafted, strict=True):
        assert one.usage.drafted_tokens == 0
        assert other.usage.drafted_tokens >= other.usage.accepted_tokens
        assert other.usage.forward_passes <= one.usage.forward_passes


def run(engine: Copyist, request: Request, **options: Any) -> Generation:
    schedule = Schedule(engine, **options)
    seat = Seat(request)
    schedule.add(seat)
    while not schedule.is_idle:
        schedule.step()
        held = schedule._sequences.tokens(0)
        assert list(held) == engine._tokens[0]
    made = seat.result.result()
    assert list(held) == [*request.turn.prompt, *made.tokens][: len(held)]  # nothing but the turn
    return made


LONG = ask(f"{SAID}. {SAID}. {SAID}".encode(), 150, GREEDY, True)


def test_the_model_runs_less_often_and_keeps_nothing_of_what_was_wrong() -> None:
    undrafted = replace(LONG, options=replace(LONG.options, draft=False))
    plain, drafted = run(Copyist(), undrafted), run(Copyist(), LONG)
    assert plain.usage.forward_passes == 150
    assert drafted.usage.forward_passes < 80
    assert 0 < drafted.usage.accepted_tokens < drafted.usage.drafted_tokens
    assert told(plain) == told(drafted)


@pytest.mark.parametrize(
    ("engine", "options"),
    [({"can_roll_back": False}, {}), ({"max_drafted": 0}, {}), ({}, {"deterministic": True})],
)
def test_where_there_are_no_drafts(engine: Any, options: Any) -> None:
    made = run(Copyist(**engine), LONG, **options)
    assert (made.usage.drafted_tokens, made.usage.accepted_tokens) == (0, 0)
    assert made.tokens == run(Copyist(), LONG).tokens


def test_a_draft_takes_no_room_that_is_needed() -> None:
    refused = 0
    for stop in range(250, 300, 3):
        whole = run(Copyist(stop=stop), LONG)
        assert whole.finish is Finish.STOP
        engine = Copyist(room=stop, stop=stop)
        assert told(run(engine, LONG)) == told(whole)
        refused += engine.refused
    assert refused


class Forgetful(Copyist):
    """A window moves on while it decodes: what could be cut before cannot be cut then."""

    def rollback(self, sequence: int, length: int) -> bool:
        if not self.refused:
            self.refused += 1
            return False
        return super().rollback(sequence, length)


def test_what_cannot_be_forgotten_is_read_again() -> None:
    engine = Forgetful()
    made = run(engine, LONG)
    assert engine.refused
    assert engine.computed > 2 * len(LONG.turn.prompt)
    assert told(made) == told(run(Copyist(), LONG))


class Breaking(PromptLookup):
    def _propose(self, matcher: Matcher | None, max_tokens: int, costs: DraftCosts) -> list[int]:
        raise GrammarError("the lexer has too many states")


def test_a_draft_that_fails_is_not_the_failure_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(Copyist(), LONG)
    monkeypatch.setattr("constrained.decode.parts.table.PromptLookup", Breaking)
    made = run(Copyist(), LONG)
    assert made.usage.drafted_tokens == 0
    assert told(made) == told(whole)


HOST = {"type": "string", "pattern": "^(?!()\\1[-_])"}  # no mask holds what must not follow
NOTE = tool("note", {"text": {"type": "string"}, "host": HOST, "urgent": {"type": "boolean"}})


@cache
def models() -> tuple[Model, Model]:
    """Without and with drafts."""
    plain, drafting = (
        Model(Wishes(), ChatTemplate(TEMPLATE), draft=draft) for draft in (False, True)
    )
    return plain, drafting


def results(
    texts: Sequence[str], message: str, noise: float = 0.0, **options: Any
) -> tuple[tuple[Any, Usage], tuple[Any, Usage]]:
    """The reply or the error, and what it took, without and with drafts."""
    plain, drafting = models()
    return result(plain, texts, message, noise, options), result(
        drafting, texts, message, noise, options
    )


def result(
    model: Model, texts: Sequence[str], message: str, noise: float, options: Any
) -> tuple[Any, Usage]:
    assert isinstance(model.engine, Wishes)
    model.engine.texts, model.engine.noise = texts, noise
    try:
        reply = model.call(message, [NOTE], **options)
    except Error as error:
        return (type(error), str(error)), Usage(0, 0, 0)
    return uncounted(reply), reply.usage


def note(text: str, host: str, urgent: bool) -> str:
    return hermes_call("note", json.dumps({"text": text, "host": host, "urgent": urgent}))


@settings(max_examples=30)
@given(
    PROMPTS,
    st.sampled_from(["good", "-bad-", "_worse_", "umbrella"]),
    st.sampled_from([0.0, 3.0]),
    SAMPLINGS,
    st.one_of(st.just(400), st.integers(1, 200)),
    st.integers(-1, 20),
)
def test_replies_are_the_same(
    quoted: str, host: str, noise: float, sampling: Sampling, max_tokens: int, budget: int
) -> None:
    texts = (note(quoted, host, True), note(quoted, "good", False))
    if budget >= 0:
        texts = tuple(f"<think>\nHm: {quoted}\n</think>\n\n{text}" for text in texts)
    options: Any = {"sampling": sampling, "max_tokens": max_tokens}
    options["reasoning_budget"] = None if budget < 0 else budget
    asked = f'Write "{quoted}" to {host}.'
    (plain, spent), (drafted, less) = results(texts, asked, noise, **options)
    assert drafted == plain
    assert less.forward_passes <= spent.forward_passes
    assert less.discarded_tokens == spent.discarded_tokens


class Kept(PromptLookup):
    last: "Kept"

    def __init__(self, prompt: Sequence[int], vocabulary: Vocabulary):
        super().__init__(prompt, vocabulary)
        Kept.last = self


def test_a_value_that_did_not_fit_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.decode.parts.table.PromptLookup", Kept)
    texts = (note(SAID, f"-{SAID}", True), note(SAID, SAID, True))
    (plain, spent), (drafted, less) = results(texts, f"Write: {SAID}", sampling=GREEDY)
    assert drafted == plain
    assert drafted.calls[0].arguments["host"] == SAID
    assert less.discarded_tokens == spent.discarded_tokens > 0
    assert less.forward_passes < spent.forward_passes
    assert Kept.last._text.endswith(b"assistant\n" + drafted.text.encode())


def test_a_call_that_quotes_takes_a_fraction() -> None:
    texts = (note(SAID, "good", True),)
    (plain, spent), (drafted, less) = results(texts, f'Write "{SAID}".', sampling=GREEDY)
    assert drafted == plain
    assert 2 * less.forward_passes < spent.forward_passes
    assert (spent.drafted_tokens, spent.accepted_tokens) == (0, 0)
    assert len(SAID) // 2 < less.accepted_tokens <= less.drafted_tokens
