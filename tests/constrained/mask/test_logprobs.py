"""How likely each token was: as the model has it, told in order, and of the turn as it is."""

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.decode.filters.events import StreamEvent
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.errors import RequestError
from constrained.mask.logprobs import Scores, TokenDrawn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import ArgumentsDelta, CallCut, ContentDelta, collect
from tests.scripted_model import BYTES, scripted, wishing
from tests.templates import HERMES, OPEN, PING, WRITE, hermes_call, tool

GREEDY = Sampling(temperature=0)
HOST = {"type": "string", "pattern": "^(?!()\\1[-_])"}  # is only checked
CONNECT = tool("connect", {"name": {"type": "string"}, "host": HOST})
BAD, FINE = (
    hermes_call("connect", f'{{"name": "x", "host": "{host}"}}') for host in ("-bad-", "good")
)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    values = logits.astype(np.float64)
    return values - np.log(np.exp(values - values.max()).sum()) - values.max()


def drawn(told: Sequence[StreamEvent]) -> tuple[TokenDrawn, ...]:
    return tuple(one for one in told if isinstance(one, TokenDrawn))


def spell(logprobs: Sequence[TokenDrawn]) -> str:
    return b"".join(one.text for one in logprobs).decode()


def nobody_drew(logprobs: Sequence[TokenDrawn]) -> str:
    return spell([one for one in logprobs if (one.logprob, one.top) == (0.0, ())])


@given(
    st.lists(st.floats(-40, 40, width=16) | st.just(-math.inf), min_size=1, max_size=30).filter(
        lambda row: max(row) > -math.inf
    ),
    st.integers(0, 20),
)
def test_scores(row: list[float], count: int):
    logits = np.array(row, np.float32)
    wanted = log_softmax(logits)
    scores = Scores(logits)
    logits[:] = -np.inf  # as a mask would
    assert [scores.of(token) for token in range(len(row))] == pytest.approx(wanted.tolist())
    top = scores.top(count)
    possible = int((wanted > -np.inf).sum())
    assert len(top) == min(count, possible)
    assert [value for _, value in top] == pytest.approx(sorted(wanted, reverse=True)[: len(top)])
    assert all(value == scores.of(token) for token, value in top)
    assert len({token for token, _ in top}) == len(top)


def check(model: Model, prompt: Sequence[int], reply: Reply, count: int) -> None:
    """Each number is that of the model, asked again; after those, nobody drew the tokens."""
    tokens = [*prompt]
    asked = [one for one in reply.logprobs if one.logprob]
    assert reply.logprobs[: len(asked)] == tuple(asked)
    assert len(asked) == len(reply.logprobs) or reply.finish_reason == "length"
    for one in asked:
        wanted = log_softmax(model.engine._logits_of(0, tokens))
        assert one.text == BYTES.tokens[one.token]
        assert one.logprob == pytest.approx(wanted[one.token])
        best = sorted(wanted, reverse=True)[:count]
        assert [value for _, value in one.top] == pytest.approx(best)
        tokens.append(one.token)
    assert spell(reply.logprobs) == reply.text


@pytest.mark.parametrize("count", [0, 3])
def test_each_token_of_a_call(count: int):
    with scripted(f"Well. {hermes_call('ping')}") as model:
        job = Job([{"role": "user", "content": "Hi"}], [PING])
        turn = model.compile(job)
        (plain,) = model.complete([turn], sampling=GREEDY)
        (reply,) = model.complete([turn], sampling=GREEDY, logprobs=count)
        assert plain.logprobs == ()
        assert (reply.text, reply.calls) == (plain.text, plain.calls)
        assert len(reply.logprobs) == len(reply.text) == reply.usage.completion_tokens
        assert reply.usage.forward_passes > plain.usage.forward_passes
        assert reply.usage.forward_passes >= len(reply.logprobs)
        check(model, turn.tokens, reply, count)


def test_before_the_mask():
    """The model wants something else than the grammar allows, sometimes but one token."""
    engine = ScriptedEngine(BYTES, random_logits(BYTES), context_length=20_000)
    with Model(engine, ChatTemplate(HERMES)) as model:
        messages = [{"role": "user", "content": "Hi"}]
        job = Job(messages, [WRITE], "required", reasoning_budget=1_000_000)
        turn = model.compile(job)
        sampling = Sampling(temperature=2, seed=1, logit_bias={65: 5}, presence_penalty=1)
        (reply,) = model.complete([turn], sampling=sampling, logprobs=2)
        check(model, turn.tokens, reply, 2)
        assert any(one.token != one.top[0][0] for one in reply.logprobs if one.top)


def test_nothing_is_drafted():
    text = "the same words again and again, " * 6
    with scripted(text) as model:
        plain = model.call(text, sampling=GREEDY)
        asked = model.call(text, sampling=GREEDY, logprobs=0)
        assert plain.usage.drafted_tokens > 0
        assert asked.usage.drafted_tokens == 0
        assert asked.text == plain.text


def test_what_nobody_drew():
    thought = "<think>\n" + 50 * "Hm. "
    with scripted(thought, source=OPEN) as model:
        options: Any = {"sampling": GREEDY, "logprobs": 1, "max_tokens": 40}
        reply = model.call("Hi", reasoning_budget=10, **options)
        assert spell(reply.logprobs) == reply.text
        assert nobody_drew(reply.logprobs).strip() == "</think>"
    with scripted('<tool_call>\n{"name": "write", "arguments": {"text": "' + 99 * "x") as model:
        reply = model.call("Hi", [WRITE], sampling=GREEDY, logprobs=1, max_tokens=80)
        assert reply.finish_reason == "length"
        (call,) = reply.calls
        assert call.truncated
        assert spell(reply.logprobs) == reply.text
        assert nobody_drew(reply.logprobs) == '"}}\n</tool_call>'


def test_in_front_of_the_events_of_the_token():
    with scripted("Well.") as model:
        told = list(model.stream("Hi", sampling=GREEDY, logprobs=0))
        assert [type(one) for one in told[:6]] == 3 * [TokenDrawn, ContentDelta]
        assert [one.text.decode() for one in drawn(told)] == [*"Well."]
        assert drawn(list(model.stream("Hi", sampling=GREEDY))) == ()

        async def ask() -> list[StreamEvent]:
            stream = model.astream("Hi", sampling=GREEDY, logprobs=0)
            return [one async for one in stream]

        assert asyncio.run(ask()) == told


def test_a_value_that_is_written_again():
    with wishing(BAD, FINE) as model:
        stream = model.stream("Hi", [CONNECT], sampling=GREEDY, logprobs=1)
        told = list(stream)
        reply = stream.result
        assert reply.usage.discarded_tokens
        assert reply.text == FINE
        assert drawn(told) == reply.logprobs  # nothing was taken back
        assert spell(reply.logprobs) == reply.text
        # The tokens of a value that is held back are, too.
        opened = next(n for n, one in enumerate(told) if isinstance(one, ArgumentsDelta))
        assert json.loads("".join(e.text for e in told if isinstance(e, ArgumentsDelta))) == (
            reply.calls[0].arguments
        )
        assert spell(drawn(told[:opened])) == FINE[: FINE.index('{"name": "x"') + 1]


def test_a_call_that_was_cut_while_it_was_held_back():
    with wishing(BAD) as model:
        turn = model.compile(Job([{"role": "user", "content": "Hi"}], [CONNECT]))
        turn.__dict__["make_reserve"] = None  # no ending is known
        stream = model.stream_turn(turn, sampling=GREEDY, logprobs=0, max_tokens=len(BAD) - 22)
        told = list(stream)
        assert isinstance(told[-1], CallCut)
        assert drawn(told) == stream.result.logprobs
        assert spell(drawn(told)) == stream.result.text


def test_up_to_the_stop_text():
    with scripted("One. Two. Three.") as model:
        stream = model.stream("Hi", sampling=GREEDY, logprobs=0, stop="Two")
        told = list(stream)
        assert collect([e for e in told if not isinstance(e, TokenDrawn)]).content == "One. "
        assert drawn(told) == stream.result.logprobs
        assert spell(drawn(told)) == "One. "


@pytest.mark.parametrize("given", [-1, 21, True, "5", 1.0])
def test_how_many_there_can_be(given: Any):
    with scripted("Hi") as model, pytest.raises(RequestError, match="logprobs is") as caught:
        model.call("Hi", logprobs=given)
    assert caught.value.where == "/logprobs"


def test_as_json():
    one = TokenDrawn(7, b"\xc3", -math.inf, ((3, -0.5),))
    shown = {"token": 7, "text": "\ufffd", "logprob": -9999.0, "top": [[3, -0.5]]}
    assert one.to_json() == shown
    with scripted("Hi") as model:
        reply = model.call("Hi", sampling=GREEDY, logprobs=1)
        assert reply.to_json()["logprobs"] == [one.to_json() for one in reply.logprobs]
        assert "logprobs" not in model.call("Hi", sampling=GREEDY).to_json()
