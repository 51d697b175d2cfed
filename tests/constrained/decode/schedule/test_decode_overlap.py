"""What is done while the model decodes on another device: nothing else changes."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.request import DecodeInput, DecodeOptions, Finish, Generation, Request
from constrained.decode.schedule.batch_plan import PROMPT_STEP
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.decode.turn_decoder import DecodedRows, TurnDecoder
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits, scripted_logits
from constrained.errors import ContextError, Error, GrammarError, ModelError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.answers import read_target
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.parse.parser import Parser
from grammars.turn import ContentDelta, Think, ToolCall
from grammars.wire.formats import HERMES as FORMAT
from tests.scripted_model import BYTES
from tests.templates import HERMES, PAINT, PING, WRITE, hermes_call, tool

GREEDY = Sampling(temperature=0)


def make_engine(*, offloads: bool) -> ScriptedEngine:
    return ScriptedEngine(BYTES, random_logits(BYTES), context_length=8192, offloads=offloads)


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("overlap")]


def write_eight(*, offloads: bool, draft: bool = True) -> list[Reply]:
    """Random turns at once; some end in calls, some run out of tokens. Prompts are read in the
    same pieces with either engine."""
    engine = make_engine(offloads=offloads)
    with Model(engine, ChatTemplate(HERMES), draft=draft, step=PROMPT_STEP) as model:
        turns = [
            model.compile(
                Job(
                    [{"role": "user", "content": f"turn {number}"}],
                    [PING, PAINT, WRITE],
                    tool_choice="required" if number % 2 else "auto",
                )
            )
            for number in range(8)
        ]
        replies = model.complete(turns, max_tokens=150, sampling=GREEDY)
        assert bool(names()) == offloads
    assert not names()
    return replies


def test_the_same_is_written() -> None:
    def tell(reply: Reply) -> Any:
        calls = [(call.name, call.arguments) for call in reply.calls]
        return reply.content, calls, reply.finish_reason

    beside = [tell(reply) for reply in write_eight(offloads=True)]
    assert beside == [tell(reply) for reply in write_eight(offloads=False)]
    assert any(calls for _, calls, _ in beside)


@pytest.mark.parametrize("offloads", [False, True])
def test_masks_are_there_when_the_model_has_decoded(
    offloads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Counter[bool]()
    choose = TurnDecoder._choose

    def watch(turn: TurnDecoder, rows: DecodedRows) -> Any:
        assert turn.turn.matcher is not None
        ready[turn.turn.matcher._packed is not None] += 1
        return choose(turn, rows)

    monkeypatch.setattr(TurnDecoder, "_choose", watch)
    write_eight(offloads=offloads, draft=False)
    assert ready[offloads] > 100
    assert ready[not offloads] <= (0 if offloads else 8)  # the first one comes with the grammar


def test_a_matcher_that_fails_takes_no_other_turn_with_it() -> None:
    turn = Model(make_engine(offloads=True), ChatTemplate(HERMES)).compile(
        Job([{"role": "user", "content": "Hello"}], [PING], tool_choice="required")
    )
    assert turn.matcher
    broken = turn.matcher.fork()
    with suppress(GrammarError):
        broken.commit(BYTES.encode("x")[0])
    schedule = Schedule(make_engine(offloads=True))
    options = DecodeOptions(max_tokens=8, sampling=GREEDY, force=False)
    seats = [
        Seat(Request(DecodeInput((1, 2, 3), lambda: Parser(FORMAT, ()), matcher), options))
        for matcher in (turn.matcher.fork(), broken)
    ]
    for seat in seats:
        schedule.add(seat)
    while not schedule.is_idle:
        schedule.step()
    schedule.clear(GrammarError("over"))
    assert len(seats[0].result.result().tokens) == 8
    assert isinstance(seats[1].result.exception(), GrammarError)
    assert not names()


ODD = {"type": "integer", "minimum": 0, "maximum": 99, "not": {"multipleOf": 2}}
COUNT = tool("count", {"text": {"type": "string", "maxLength": 8}, "odd": ODD})
LIST = tool("list", {"items": {"type": "array", "items": {"type": "integer"}}})
TOOLS = [PING, PAINT, WRITE, COUNT, LIST]
RED = ToolCall("paint", {"color": "red"})
SCRIPTS = (
    "It is sunny today, and it will be sunny tomorrow.",
    hermes_call("paint", '{"color": "red", "glossy": true}'),
    "\n".join([hermes_call("paint", '{"color": "red"}')] * 3),
    "Sunny. " + hermes_call("write", '{"text": "sunny \\u00e9 days"}') + "\n" + hermes_call("ping"),
    hermes_call("count", '{"text": "sunny", "odd": 4}'),
    hermes_call("count", '{"odd": 5, "text": "sun"}'),
    hermes_call("list", '{"items": [' + "1, 2, " * 60 + "3]}"),
    "<think>\nIt may be sunny today, or not; who knows?\n</think>\n\nIt is sunny.",
    '{"sunny": true, "days": ["Monday", "Tuesday", "Monday"]}',
    "",
)

ANSWER = read_target(
    {
        "type": "object",
        "properties": {
            "sunny": {"type": "boolean"},
            "days": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        },
        "required": ["sunny", "days"],
    }
).answer
ASSISTANT = b"<|im_start|>assistant\n"


@dataclass(frozen=True)
class Case:
    """A turn: the script that the model wants to write, and the options of the request."""

    script: int
    job: dict[str, Any]
    options: dict[str, Any]


def some(**values: Sequence[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Options, each of them there or not."""
    optional = {name: st.sampled_from(list(given)) for name, given in values.items()}
    return st.fixed_dictionaries({}, optional=optional)


JOBS = some(
    tool_choice=["required", "none"],
    max_calls=[1, 2],
    max_identical_calls=[2, None],
    excluded_calls=[[RED]],
    max_repetition=[32],
    think=[Think.REQUIRED, Think.FORBIDDEN],
    reasoning_budget=[0, 3, 20],
    reasoning_close=["Enough."],
    answer=[ANSWER],
)
OPTIONS = some(
    max_tokens=[60, 90, 140],
    stops=[("tomorrow",), ("nny t", "unny"), ("is",), ("Mon",)],
    logprobs=[0, 2],
    progress=[True],
    trace=[2],
    force=[False],
    ignore_eos=[True],
    sampling=[
        Sampling(temperature=0.7, seed=3),
        Sampling(temperature=0.1, seed=5, repeat_penalty=1.3, penalty_last_n=-1),
        Sampling(temperature=0, logit_bias={ord("s"): -np.inf}),
    ],
)
CASES = st.builds(Case, st.sampled_from(range(len(SCRIPTS))), JOBS, OPTIONS)


class Told:
    """What a request is told, and what comes of it."""

    def __init__(self, turn: CompiledTurn, options: DecodeOptions):
        self.events: list[Any] = []
        request = Request(turn.make_input(), options, sink=self.events.extend)
        self.seat = Seat(request)

    @property
    def outcome(self) -> Any:
        """The generation and its trace, or the error."""
        error = self.seat.result.exception()
        if error is not None:
            return type(error), str(error)
        generation = self.seat.result.result()
        return generation, generation.trace

    @property
    def texts(self) -> Any:
        """The same and the events, without what depends on other turns: in how many decodes the
        prompt is read."""
        events = [event for event in self.events if not isinstance(event, ProgressMade)]
        match self.outcome:
            case Generation() as generation, trace:
                usage = replace(generation.usage, forward_passes=0)
                return replace(generation, usage=usage), trace, events
            case error:
                return error, events


def write_cases(cases: Sequence[Case], *, offloads: bool, draft: bool) -> list[Told]:
    """All turns at once."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = BYTES.text(tokens)
        (script,) = re.findall(rb"script (\d+)", text)
        start = text.rindex(ASSISTANT) + len(ASSISTANT)
        return scripted_logits(BYTES, SCRIPTS[int(script)], start)(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=8192, offloads=offloads)
    told = list[Told]()
    with Model(engine, ChatTemplate(HERMES)) as model:
        for number, case in enumerate(cases):
            ask = [{"role": "user", "content": f"turn {number}, script {case.script}"}]
            try:
                turn = model.compile(Job(ask, TOOLS, cache_salt=str(number), **case.job))
            except Error:
                continue  # options that contradict each other
            options = DecodeOptions(**{"sampling": GREEDY, "draft": draft, **case.options})
            told.append(Told(turn, options))
        schedule = Schedule(engine, clock=lambda: 0.0, cpu_clock=lambda: 0.0)
        for one in told:
            schedule.add(one.seat)
        while not schedule.is_idle:
            schedule.step()
        assert not schedule.metrics.running
        for number in range(engine.max_sequences):  # no token of a decode that counts for nothing
            assert engine._tokens[number] == schedule._sequences.tokens(number)
        schedule.clear(GrammarError("over"))
    return told


@settings(max_examples=settings.default.max_examples // 10)
@given(CASES, st.booleans())
def test_a_turn_alone_is_the_same_to_the_last_count(case: Case, draft: bool) -> None:
    after = write_cases([case], offloads=True, draft=draft)
    in_a_row = write_cases([case], offloads=False, draft=draft)
    assert [one.outcome for one in after] == [one.outcome for one in in_a_row]
    assert [one.events for one in after] == [one.events for one in in_a_row]


@settings(max_examples=settings.default.max_examples // 10)
@given(st.lists(CASES, min_size=2, max_size=12))
def test_turns_at_once_are_the_same(cases: list[Case]) -> None:
    after = write_cases(cases, offloads=True, draft=False)
    in_a_row = write_cases(cases, offloads=False, draft=False)
    assert [one.texts for one in after] == [one.texts for one in in_a_row]


class Hooked(ScriptedEngine):
    """Says a text to every turn; something happens in each decode before it says anything."""

    def __init__(self, text: str, hook: Callable[[int], None]):
        super().__init__(BYTES, scripted_logits(BYTES, text, 1), offloads=True)
        self._hook = hook
        self._count = 0

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self._count += 1
        self._hook(self._count)
        return super().decode(chunks)


def ask_hooked(sink: Callable[[Sequence[StreamEvent]], None], *stops: str) -> Request:
    """A turn of free text; the prompt has one token."""
    options = DecodeOptions(max_tokens=12, sampling=GREEDY, draft=False, stops=stops)
    return Request(DecodeInput((1,), lambda: Parser(FORMAT, ()), scope=None), options, sink=sink)


def finish(engine: ScriptedEngine, *requests: Request) -> list[Future[Generation]]:
    """All turns, to their end."""
    schedule = Schedule(engine)
    seats = [Seat(request) for request in requests]
    for seat in seats:
        schedule.add(seat)
    while not schedule.is_idle:
        schedule.step()
    schedule.clear(GrammarError("over"))
    return [seat.result for seat in seats]


def test_callers_are_told_while_the_next_decode_runs() -> None:
    sent: SimpleQueue[Sequence[StreamEvent]] = SimpleQueue()
    read = list[str]()

    def wait(count: int) -> None:
        if count > 1:
            for event in sent.get(timeout=5):  # of the token before: else it comes only after this
                assert isinstance(event, ContentDelta)
                read.append(event.text)

    (result,) = finish(Hooked("Sunny days", wait), ask_hooked(sent.put))
    assert "".join(read) == "Sunny days" == result.result().text


def test_a_turn_that_is_over_does_not_fail_with_the_next_decode() -> None:
    """A stop text is found in front of it."""

    def fail(count: int) -> None:
        if count == 6:
            raise ModelError("the device is gone")

    sent = list[StreamEvent]()
    stopped, failed = finish(
        Hooked("Sunny days", fail),
        ask_hooked(sent.extend, "ny"),
        ask_hooked(lambda events: None),
    )
    assert stopped.result().stopped == "ny"
    assert "".join(event.text for event in sent if isinstance(event, ContentDelta)) == "Sun"
    assert isinstance(failed.exception(), ModelError)


def test_who_is_over_makes_room_before_anybody_has_to_go() -> None:
    def fill(count: int) -> None:
        if count == 6:
            raise ContextError("the context that the sequences share is full")

    results = finish(
        Hooked("Sunny days", fill),
        ask_hooked(lambda events: None),
        ask_hooked(lambda events: None, "ny"),
    )
    assert [result.result().text for result in results] == ["Sunny days", "Sunny"]


def test_a_sink_that_fails_ends_its_own_turn_alone() -> None:
    def fail(events: Sequence[StreamEvent]) -> None:
        raise RuntimeError("nobody is there")

    failed, other = finish(
        Hooked("Sunny days", lambda count: None), ask_hooked(fail), ask_hooked(lambda events: None)
    )
    assert isinstance(failed.exception(), RuntimeError)
    assert other.result().text == "Sunny days"


def test_who_goes_away_has_what_was_sampled() -> None:
    sent = list[StreamEvent]()
    wanted = iter([True] * 4)
    request = replace(ask_hooked(sent.extend), is_wanted=lambda: next(wanted, False))
    (result,) = finish(Hooked("Sunny days", lambda count: None), request)
    assert result.result().finish is Finish.CANCELLED
    text = "".join(event.text for event in sent if isinstance(event, ContentDelta))
    assert text == result.result().text == "Sunn"


def begin(schedule: Schedule, *requests: Request, steps: int) -> list[Future[Generation]]:
    """So many steps of these turns."""
    seats = [Seat(request) for request in requests]
    for seat in seats:
        schedule.add(seat)
    for _ in range(steps):
        schedule.step()
    return [seat.result for seat in seats]


def limit(request: Request, max_tokens: int) -> Request:
    return replace(request, options=replace(request.options, max_tokens=max_tokens))


def read_content(events: Sequence[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ContentDelta))


def test_nobody_waits_for_one_who_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = Schedule(Hooked("Sunny days", lambda count: None))
    sent = list[StreamEvent]()
    going, short, stopped = begin(
        schedule,
        ask_hooked(sent.extend),
        limit(ask_hooked(lambda events: None), 4),
        ask_hooked(lambda events: None, "nn"),
        steps=4,
    )
    told = list[Any]()
    claim = schedule._sequences.claim

    def watch(*args: Any) -> Any:
        told.append((read_content(sent), short.done(), stopped.done()))
        return claim(*args)

    monkeypatch.setattr(schedule._sequences, "claim", watch)
    (late,) = begin(schedule, ask_hooked(lambda events: None), steps=1)
    assert told == [("Sunn", True, True)]
    while not schedule.is_idle:
        schedule.step()
    schedule.clear(GrammarError("over"))
    assert short.result().text == "Sunn"
    assert stopped.result().stopped == "nn"
    assert going.result().text == late.result().text == read_content(sent) == "Sunny days"
