"""What a turn tells its sampler, and how long it takes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.decode.filters.events import ProgressMade
from constrained.decode.request import DecodeInput, DecodeOptions, Finish, Request, Timings
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.engine.numpy_sampler import RowSampler
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits, scripted_logits
from constrained.errors import RequestError
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.parse.parser import Parser
from grammars.turn import Think
from grammars.wire.formats import HERMES as FORMAT
from tests.generation import generate
from tests.scripted_model import BYTES, scripted, wishing
from tests.templates import HERMES, hermes_call, tool

GREEDY = Sampling(temperature=0)
PENALTY = replace(GREEDY, presence_penalty=1e-3, penalty_last_n=-1)
CONNECT = tool(
    "connect",
    {"name": {"type": "string"}, "host": {"type": "string", "not": {"pattern": "^()\\1[-_]"}}},
)


def ask(prompt: str, sampling: Sampling, max_tokens: int, **more: Any) -> Request:
    turn = DecodeInput(tuple(prompt.encode()), lambda: Parser(FORMAT, ()))
    options = DecodeOptions(max_tokens=max_tokens, sampling=sampling, draft=False)
    return Request(turn, options, **more)


def flat(sequence: int, tokens: Sequence[int]) -> np.ndarray:
    """Logits of a model that likes "a" best, then "b", then "c"."""
    row = np.zeros(len(BYTES.tokens), np.float32)
    row[[97, 98, 99]] = 5, 4.5, 4.1
    return row


@pytest.mark.parametrize(
    ("last", "text"), [(-1, "bcabca"), (2, "bcabca"), (1, "bababa"), (0, "aaaaaa")]
)
def test_penalties_look_at_the_prompt_too(last: int, text: str):
    sampling = replace(GREEDY, presence_penalty=2.0, penalty_last_n=last, frequency_penalty=1.0)
    (made,) = generate(ScriptedEngine(BYTES, flat), [ask("xa", sampling, 6)])
    assert made.text == text


class Spy(RowSampler):
    """Compares what penalties look at with what the model has seen."""

    engine: ScriptedEngine
    draws = 0

    def sample(self, slot: int) -> int:
        assert list(self._last) == self.engine._tokens[0]
        Spy.draws += 1
        return super().sample(slot)


def test_the_sampler_knows_what_was_written_again(monkeypatch: pytest.MonkeyPatch):
    calls = [hermes_call("connect", f'{{"name": "x", "host": "{h}"}}') for h in ("-bad-", "good")]
    with wishing(*calls) as model:
        engine: Any = model.engine

        def sampler(sampling: Sampling) -> Spy:
            size = len(BYTES.tokens)
            spy = Spy(sampling, engine._row, n_vocab=size, context_length=engine.context_length)
            spy.engine = engine
            return spy

        monkeypatch.setattr(engine, "sampler", sampler)
        model._draft = False
        reply = model.call("Hi", [CONNECT], sampling=PENALTY)
        assert reply.usage.discarded_tokens
        assert [c.arguments["host"] for c in reply.calls] == ["good"]
        assert Spy.draws > 10


def test_what_is_banned_comes_where_nothing_else_may():
    with scripted("no") as model:
        bans = {token: float("-inf") for token in b"ynoes"}
        options: Any = {"choice": ["yes", "no"], "think": Think.FORBIDDEN}
        options["sampling"] = replace(GREEDY, logit_bias=bans)
        assert model.generate("Sure?", **options) == "no"
        bans = {ord("n"): float("-inf")}
        options["sampling"] = replace(GREEDY, logit_bias=bans)
        assert model.generate("Sure?", **options) == "yes"


def test_a_bias_of_no_token_is_an_error_of_that_request():
    with scripted("Hi") as model:
        with pytest.raises(RequestError, match="there is no token 257") as caught:
            model.call("Hi", sampling=Sampling(logit_bias={257: 1}))
        assert caught.value.where == "/logit_bias/257"
        assert model.call("Hi", sampling=GREEDY).content == "Hi"


class Timed(ScriptedEngine):
    """Each decoded token takes a second, and each decode another one."""

    now = 500.0

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self.now += 1 + sum(len(chunk.tokens) for chunk in chunks)
        return super().decode(chunks)


def test_how_long_a_turn_takes():
    engine = Timed(BYTES, random_logits(BYTES))
    schedule = Schedule(engine, step=16, clock=lambda: engine.now)
    seats = [Seat(ask("p" * 40, GREEDY, 5))]
    schedule.add(seats[0])
    while not schedule.is_idle:
        schedule.step()
    made = seats[0].result.result()
    assert made.timings == Timings(3 + 40, 2 * 4)  # the last token is not decoded
    assert replace(made, timings=Timings()) == made


def test_a_turn_that_is_cancelled_while_its_prompt_is_read():
    engine = Timed(BYTES, random_logits(BYTES))
    schedule = Schedule(engine, step=16, clock=lambda: engine.now)
    asked = iter([True, True, False])
    seat = Seat(ask("p" * 40, GREEDY, 5, is_wanted=lambda: next(asked, False)))
    schedule.add(seat)
    while not schedule.is_idle:
        schedule.step()
    made = seat.result.result()
    assert made.finish is Finish.CANCELLED
    assert made.timings == Timings(2 * 17, 0)


def test_the_reply_has_the_timings():
    engine = Timed(BYTES, scripted_logits(BYTES, "Well."), context_length=20_000)
    with Model(engine, ChatTemplate(HERMES), clock=lambda: engine.now, draft=False) as model:
        reply = model.call("Hi", sampling=GREEDY)
        assert reply.timings.prompt_seconds >= reply.usage.prompt_tokens
        assert reply.timings.generation_seconds == 2 * len("Well.")
        assert reply == replace(reply, timings=Timings())


def test_a_stream_tells_its_progress() -> None:
    with scripted("Hello") as model:
        stream = model.stream("Hi", progress=True)
        told = [event for event in stream if isinstance(event, ProgressMade)]
        usage = stream.result.usage
    assert told[0].read_tokens == told[0].cached_tokens == 0
    assert {progress.prompt_tokens for progress in told} == {usage.prompt_tokens}
    assert told[-1].read_tokens == usage.prompt_tokens
    assert told[-1].completion_tokens == usage.completion_tokens
    assert told[-1].timings.prompt_seconds > 0


def test_a_stream_tells_no_progress_unasked() -> None:
    with scripted("Hello") as model:
        assert not [event for event in model.stream("Hi") if isinstance(event, ProgressMade)]
