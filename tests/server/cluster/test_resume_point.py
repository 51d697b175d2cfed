"""A turn that another process has begun goes on after its tokens, and is the same turn."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import Model, Sampling
from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.request import DecodeOptions, Generation
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.errors import GrammarError
from constrained.limits.deadline import Timings
from constrained.model.call_options import CallOptions
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from server.cluster.front_model import ResumePoint
from server.cluster.turn_order import ReplicaLostError
from tests.scripted_model import BYTES
from tests.templates import HERMES

GREEDY = DecodeOptions(max_tokens=120, sampling=Sampling(temperature=0), progress=True)
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "array", "items": {"type": "integer", "multipleOf": 3}, "maxItems": 3},
    },
    "required": ["city"],
    "not": {"required": ["day"]},
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
MESSAGES = [{"role": "user", "content": "What's the weather in Oslo?"}]


@dataclass
class Watched:
    """A turn as whoever started it has seen it: after each batch of events, its tokens."""

    point: ResumePoint = field(default_factory=ResumePoint)
    told: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    events: list[list[StreamEvent]] = field(default_factory=list[list[StreamEvent]])

    def take(self, batch: Sequence[StreamEvent]) -> None:
        """The sink of the turn."""
        sent = self.point.take(batch)
        self.told.append(tuple(self.point.tokens))
        self.events.append([event for event in sent if not isinstance(event, ProgressMade)])

    def finish(self) -> list[StreamEvent]:
        """All events, once the turn is over."""
        held = [event for event in self.point.finish() if not isinstance(event, ProgressMade)]
        return [*flatten(self.events), *held]


def decode(
    model: Model, turn: CompiledTurn, options: DecodeOptions
) -> tuple[Watched, Future[Generation]]:
    watched = Watched()
    watched.point.tokens += options.written
    future = model.decode(
        turn, lambda: True, watched.take, options=CallOptions(options), deadline=None
    )
    return watched, future


@cache
def make_model(seed: int) -> Model:
    engine = ScriptedEngine(BYTES, random_logits(BYTES, seed), context_length=4_000)
    return Model(engine, ChatTemplate(HERMES))


def flatten(batches: Sequence[Sequence[StreamEvent]]) -> list[StreamEvent]:
    return [event for batch in batches for event in batch]


@settings(max_examples=8)
@given(
    seed=st.integers(0, 3),
    choice=st.sampled_from(["auto", "required"]),
    max_calls=st.sampled_from([None, 1, 2]),
    max_tokens=st.integers(90, 160),
    part=st.floats(0, 1),
    stop=st.sampled_from([(), ("e",)]),
)
def test_a_turn_that_goes_on_elsewhere_is_the_same(
    seed: int,
    choice: str,
    max_calls: int | None,
    max_tokens: int,
    part: float,
    stop: tuple[str, ...],
) -> None:
    options = replace(GREEDY, stops=stop, max_tokens=max_tokens)
    model = make_model(seed)
    turn = model.compile(Job(MESSAGES, [TOOL], tool_choice=choice, max_calls=max_calls))
    whole, generated = decode(model, turn, options)
    generation = generated.result()
    cut = int(part * (len(whole.told) - 1))
    resumed, going_on = decode(model, turn, replace(options, written=whole.told[cut]))
    again = going_on.result()
    assert (again.tokens, again.text, again.events) == (
        generation.tokens,
        generation.text,
        generation.events,
    )
    assert (again.finish, again.stopped, again.ended_at) == (
        generation.finish,
        generation.stopped,
        generation.ended_at,
    )
    assert flatten(whole.events[: cut + 1]) + resumed.finish() == whole.finish()
    # It may have to go on elsewhere once more, from any place.
    written = whole.told[cut]
    assert {told[: len(written)] for told in resumed.told} == {written}
    assert set(resumed.told) <= {written, *whole.told[cut:]}


def test_tokens_that_were_not_told_are_missed() -> None:
    """A gap would be the text of another turn."""
    point = ResumePoint()
    progress = ProgressMade(1, 0, 1, 2, Timings(), tokens=(5,), position=1)
    with pytest.raises(ReplicaLostError, match="tokens 0 to 0"):
        point.take([progress])
    assert point.resume() == ()


def test_tokens_that_the_grammar_does_not_take_are_an_error() -> None:
    model = make_model(1)
    turn = model.compile(Job(MESSAGES, [TOOL], tool_choice="required"))
    _, generated = decode(model, turn, replace(GREEDY, written=(BYTES.tokens.index(b"x"),)))
    with pytest.raises(GrammarError):
        generated.result()
