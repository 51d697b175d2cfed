"""Tools that change while a run is under way, and what its record says of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.finished_run import Reason
from constrained.agent.run_tools import RunTools
from constrained.agent.runs.export import export_rows
from constrained.agent.runs.replay import replay
from constrained.agent.runs.store import RunStore
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.prompt.tools.functions import FunctionTool
from tests.scripted_model import scripted
from tests.templates import hermes_call

GREEDY = Sampling(temperature=0)


def call(name: str) -> str:
    return hermes_call(name, json.dumps({"value": 1}))


class Shelf:
    """Tools of which one brings the next, and goes."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.tools = [self._make("first")]

    def _make(self, name: str) -> FunctionTool:
        schema = {"type": "object", "properties": {"value": {"type": "integer"}}}

        def turn_to_next(value: int) -> str:
            self.made.append(name)
            self.tools = [self._make("second")]
            return "there is another tool now"

        return FunctionTool.from_schema(name, schema, turn_to_next)

    def list(self) -> list[FunctionTool]:
        return self.tools


def test_the_next_turn_has_the_tools_of_then() -> None:
    shelf = Shelf()
    ran = scripted(call("first"), call("second"), "Done.").run("Go.", shelf.list, sampling=GREEDY)
    assert (ran.reason, shelf.made) == (Reason.STOP, ["first", "second"])
    assert [made.outcome for made in ran.calls] == ["done", "done"]


def list_names(row: Mapping[str, Any]) -> list[str]:
    """The tools of a row."""
    return [tool["function"]["name"] for tool in row["tools"]]


def record(path: Path) -> tuple[Shelf, str]:
    shelf = Shelf()
    with scripted(call("first"), call("second"), "Done.") as model:
        ran = model.run("Go.", shelf.list, record=path, max_steps=2, sampling=GREEDY)
    assert ran.reason is Reason.MAX_STEPS
    assert ran.id is not None
    return shelf, ran.id


def test_a_run_is_resumed_whose_first_tool_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shelf, id = record(path)
    with scripted("Done.") as model:
        ran = model.resume(path, id, shelf.list, max_steps=3)
    assert (ran.reason, ran.content) == (Reason.STOP, "Done.")
    assert [made.call.name for made in ran.calls] == ["first", "second"]
    assert shelf.made == ["first", "second"]  # nothing is done again
    with scripted("Done.") as model, pytest.raises(RequestError, match="'second', which is not"):
        model.resume(path, id, [Shelf().tools[0]], max_steps=3)


def test_a_run_with_other_tools_is_replayed_and_exported(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shelf, id = record(path)
    with RunStore(path) as store:
        run, events = store.find(id), store.read_events(id)
    given: list[RunTools | None] = [None, shelf.tools]
    for tools in given:
        assert replay(run, events, tools).differences == ()  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = export_rows(run, events)
    assert [list_names(row) for row in rows] == [["first"], ["second"]]


def test_a_search_stands_beside_tools_that_change(tmp_path: Path) -> None:
    path, shelf = tmp_path / "runs.db", Shelf()
    searched = [
        FunctionTool.from_schema("rain", {"type": "object"}, lambda: "none", description="The rain")
    ]
    search = hermes_call("search_tools", '{"query": "rain"}')
    scripts = (call("first"), search, hermes_call("rain"), call("second"), "Done.")
    with scripted(*scripts[:3]) as model:
        options: dict[str, Any] = {"sampling": GREEDY, "max_steps": 3}
        ran = model.run("Go.", shelf.list, record=path, search_tools=searched, **options)
    assert ran.id is not None
    assert [made.outcome for made in ran.calls] == ["done"] * 3
    with scripted(*scripts) as model:
        for again in ([*shelf.tools, *searched], shelf.list):
            further: dict[str, Any] = {"search_tools": searched} if callable(again) else {}
            ended = model.resume(path, ran.id, again, max_steps=5, **further)  # type: ignore[arg-type]
            assert (ended.reason, ended.content) == (Reason.STOP, "Done.")
    assert shelf.made == ["first", "second"]
    with RunStore(path) as store:
        run, events = store.find(ran.id), store.read_events(ran.id)
    assert replay(run, events).differences == ()
    names = [list_names(row) for row in export_rows(run, events)]
    assert names == [["first", "search_tools"]] + [["second", "search_tools"]] * 4
    hidden = [len(row["hidden_tools"]) for row in export_rows(run, events)]
    assert hidden == [0, 0, 1, 1, 1]
