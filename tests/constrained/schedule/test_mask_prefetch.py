"""Masks that are computed while the model decodes on another device: nothing else changes."""

import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.errors import GrammarError
from constrained.job import Job
from constrained.mask import Matcher
from constrained.model.model import Model
from constrained.reply import Reply
from constrained.schedule.scheduler import Schedule, Seat
from constrained.template.chat_template import ChatTemplate
from grammars.formats import HERMES as FORMAT
from grammars.parse.parser import Parser
from tests.scripted_model import BYTES
from tests.templates import HERMES, PAINT, PING, WRITE

GREEDY = Sampling(temperature=0)


def make_engine(*, offloads: bool) -> ScriptedEngine:
    return ScriptedEngine(BYTES, random_logits(BYTES), context_length=8192, offloads=offloads)


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("overlap")]


def write_eight(*, offloads: bool, draft: bool = True) -> list[Reply]:
    """Random turns at once; some end in calls, some run out of tokens."""
    with Model(make_engine(offloads=offloads), ChatTemplate(HERMES), draft=draft) as model:
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
        return reply.content, calls, reply.finish_reason, reply.usage.forward_passes

    beside = [tell(reply) for reply in write_eight(offloads=True)]
    assert beside == [tell(reply) for reply in write_eight(offloads=False)]
    assert any(calls for _, calls, *_ in beside)


@pytest.mark.parametrize("offloads", [False, True])
def test_masks_are_there_when_the_model_has_decoded(
    offloads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Counter[bool]()
    apply = Matcher.apply

    def watch(matcher: Matcher, logits: np.ndarray) -> int | None:
        ready[matcher._packed is not None] += 1
        return apply(matcher, logits)

    monkeypatch.setattr(Matcher, "apply", watch)
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
