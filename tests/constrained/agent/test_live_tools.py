"""Tools that change while a run is under way."""

import json

from constrained.agent.finished_run import Reason
from constrained.engine.protocol import Sampling
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


def test_a_search_stands_beside_tools_that_change() -> None:
    shelf = Shelf()
    searched = [
        FunctionTool.from_schema("rain", {"type": "object"}, lambda: "none", description="The rain")
    ]
    search = hermes_call("search_tools", '{"query": "rain"}')
    scripts = (call("first"), search, hermes_call("rain"), call("second"), "Done.")
    with scripted(*scripts) as model:
        ran = model.run("Go.", shelf.list, search_tools=searched, sampling=GREEDY)
    assert (ran.reason, ran.content) == (Reason.STOP, "Done.")
    assert [made.outcome for made in ran.calls] == ["done"] * 4
    assert shelf.made == ["first", "second"]
