"""A bad tool is refused by name, and the others are offered."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.inputs.sources import OURS
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import RequestError
from constrained.model.compile.compiler import Compiler
from constrained.prompt.format_selection.generic import CHATML
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.offer import read_offer
from constrained.prompt.tools.reports import report_tools
from grammars.errors import SchemaError, ToolError
from grammars.wire.formats import MINIMAX_M3
from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import PAINT, PING, hermes_call, tool

BAD = tool("bad", {"a": {"$ref": "http://elsewhere/a"}})
WORSE = tool("worse", type="string")
WHERE = "/tools/1/function/parameters/properties/a/$ref"


def choose(*names: str) -> Any:
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "tools": tools}


def test_the_others_are_offered_and_the_reply_names_the_bad_one() -> None:
    with scripted(hermes_call("ping")) as model:
        reply = model.call("Hi", [PING, BAD, PAINT])
        (call,) = reply.calls
        assert call.name == "ping"
        (refused,) = reply.to_json()["refused_tools"]
        assert (refused["name"], refused["pointer"]) == ("bad", WHERE)
        assert refused["reason"] == "$ref 'http://elsewhere/a' is not local"
        assert refused["hint"]
        turn = model.compile(Job([{"role": "user", "content": "Hi"}], [PING, BAD, PAINT]))
        assert "bad" not in turn.prompt.text
        assert [t.name for t in turn.tools] == ["ping", "paint"]
        assert "refused_tools" not in model.call("Hi", [PING]).to_json()


def test_what_leaves_nothing_to_call_is_an_error() -> None:
    with scripted("Hello") as model:
        for given, options in (
            ([BAD], {}),
            ([BAD, WORSE], {}),
            ([BAD, PING], {"drop_tools": False}),
            ([PING, BAD], {"tool_choice": {"type": "tool", "name": "bad"}}),
            ([PING, BAD], {"tool_choice": choose("bad")}),
        ):
            with pytest.raises(SchemaError, match="tool 'bad'"):
                model.call("Hi", given, **options)
        with pytest.raises(ToolError, match="two tools are called 'bad'"):
            model.call("Hi", [PING, BAD, tool("bad")])
        with pytest.raises(ToolError, match="no name"):
            model.call("Hi", [PING, {"parameters": {}}])
        with pytest.raises(RequestError, match="drop_tools is 1"):
            model.call("Hi", [PING], drop_tools=1)


def test_a_choice_of_several_goes_on_with_the_rest() -> None:
    with scripted(hermes_call("ping")) as model:
        reply = model.call("Hi", [PING, BAD, PAINT], tool_choice=choose("bad", "ping"))
        assert [call.name for call in reply.calls] == ["ping"]
        job = Job([{"role": "user", "content": "Hi"}], [PING, BAD], choose("bad", "ping"))
        assert model.compile(job).policy.names == ("ping",)


def test_what_the_format_cannot_write_is_refused() -> None:
    source = (OURS / "qwen3_coder.jinja").read_text("utf-8")
    with scripted("Hello", source=source) as model:
        reply = model.call("Hi", [tool("a>b"), PING, tool("keys", {"a>b": {"type": "string"}})])
        assert [refusal.name for refusal in reply.refused] == ["a>b", "keys"]
        with pytest.raises(ToolError, match="cannot write the name 'a>b'"):
            model.call("Hi", [tool("a>b")])


def test_what_the_format_cannot_enforce_is_checked() -> None:
    """A list that has to contain something cannot be held between nested tags."""
    flags = {"type": "array", "items": {"type": "string"}, "contains": {"const": "a"}}
    given = [tool("mark", {"flags": flags, "n": {"type": "integer", "minimum": 3}}), PING]
    vocabulary = byte_vocabulary(MINIMAX_M3.atoms)
    template = ChatTemplate(CHATML, eos_token="<|im_end|>")
    compiler = Compiler(vocabulary, template, tool_format=MINIMAX_M3)
    for drop in (True, False):
        turn = compiler.compile(Job([{"role": "user", "content": "Hi"}], given, drop_tools=drop))
        checked = [(one.name, bool(one.schema.report.checked)) for one in turn.tools]
        assert (checked, turn.refused) == ([("mark", True), ("ping", False)], ())
        assert "mark" in turn.prompt.text
    (report, _) = report_tools(given, MINIMAX_M3)
    assert not report.is_refused
    keywords = [finding.keyword for finding in report.report.checked]
    assert keywords == ["const", "contains", "minimum"]


def test_the_loop_goes_on_without_the_bad_one() -> None:
    def ping() -> str:
        """Answers."""
        return "pong"

    with scripted(hermes_call("ping"), "Done") as model:
        run = model.run("Hi", [ping, BAD])
        assert [made.content for made in run.calls] == ["pong"]
        assert [refusal.name for refusal in run.reply.refused] == ["bad"]
        with pytest.raises(SchemaError):
            model.run("Hi", [ping, BAD], drop_tools=False)


def test_places_are_those_of_the_request() -> None:
    offer = read_offer([BAD, PING, WORSE, PAINT])
    assert [o.entry.place for o in offer.kept] == ["/tools/1", "/tools/3"]
    assert [str(r.error.where) for r in offer.refused][1] == "/tools/2/function/parameters"
    assert read_offer(()).kept == ()


def test_the_command_line_says_it(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "tools.json", [PING, BAD])
    code, out, err = run("grammar", "--tools", path, "--format", "hermes", "--json")
    assert code == 0
    assert "bad" not in json.loads(out)["grammar"]
    assert f"note: tool 'bad' is not offered, {WHERE}: $ref" in err.replace("/tools/0", "/tools/1")
