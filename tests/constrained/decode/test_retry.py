"""Values that are written once more, on a real llama.cpp with random weights."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.loading import load
from constrained.agent.model import Model
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.protocol import Chunk, Sampling
from constrained.errors import ReplyError
from examples.random_model import MARKERS, load_small, with_markers, write_model
from grammars.turn import ArgumentsDelta, CallRead, Event
from tests.constrained.decode.recurrent_file import write_recurrent
from tests.replies import uncounted
from tests.templates import HERMES, tool

ODD = {"type": "integer", "minimum": 0, "maximum": 99, "not": {"multipleOf": 2}}
COUNT = tool("count", {"text": {"type": "string", "maxLength": 8}, "odd": ODD})
SEEDS = range(12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("model") / "m.gguf"
    write_model(path, with_markers(load_small(), MARKERS), HERMES, n_layer=2)
    with load(path, threads=1, deterministic=True) as model:
        yield model


def test_a_value_is_written_once_more(model: Model) -> None:
    again = 0
    for seed in SEEDS:
        options: Any = {"sampling": Sampling(temperature=3, seed=seed), "tool_choice": "required"}
        options["template_kwargs"] = {"enable_thinking": False}
        stream = model.stream("Count!", [COUNT], parallel=False, **options)
        sent: list[Event] = []
        try:
            sent.extend(stream)
        except ReplyError:
            assert not any(isinstance(event, CallRead) for event in sent)
            continue
        reply = stream.result
        (call,) = reply.calls
        assert call.arguments["odd"] % 2 == 1
        assert json.loads("".join(e.text for e in sent if isinstance(e, ArgumentsDelta))) == (
            call.arguments
        )
        again += reply.usage.discarded_tokens > 0
        twice = model.call("Count!", [COUNT], parallel=False, **options)
        assert uncounted(twice) == uncounted(reply)
    assert again


def test_a_model_that_keeps_no_past(tmp_path: Path) -> None:
    path = write_recurrent(tmp_path / "mamba.gguf")
    with load_engine(path, threads=1) as engine:
        engine.decode([Chunk(0, [5, 6, 7], 0)])
        assert not engine.rollback(0, 2)
        engine.decode([Chunk(0, [8], 3)])  # nothing has changed
    failed = 0
    with load(path, threads=1) as model:
        for seed in SEEDS:
            options: Any = {
                "sampling": Sampling(temperature=3, seed=seed),
                "tool_choice": "required",
                "reasoning_budget": 1_000_000,
            }
            try:
                reply = model.call("Count!", [COUNT], parallel=False, **options)
            except ReplyError:
                failed += 1
            else:
                assert reply.usage.discarded_tokens == 0
    assert failed
