"""How turns are shown to people."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.cli.terminal.show import DIM, PLAIN, ArgumentsText, Screen, TurnPrinter, show_reply
from constrained.decode.endless.values import EndedValue
from constrained.model.reply import Reply, Usage
from grammars.schema.nodes import Violation
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCall,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
CALL = ToolCall("paint", {"color": "red", "at": [1, 2]})


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def show(*events: Event, out: io.StringIO | None = None) -> str:
    out = out or io.StringIO()
    screen = Screen(out)
    show = TurnPrinter(screen, screen)
    for event in events:
        show.take(event)
    return out.getvalue()


def reply(finish: str = "stop", **parts: Any) -> Reply:
    known: dict[str, Any] = {"content": "", "reasoning": "", "calls": (), "unfinished": ""}
    return Reply(**(known | parts), finish_reason=finish, usage=Usage(1, 1, 1), text="")


def written(reply: Reply) -> str:
    out = io.StringIO()
    screen = Screen(out)
    show_reply(reply, screen, screen)
    return out.getvalue()


@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.none() | st.just(3), st.data())
def test_arguments_are_shown_as_they_come(
    arguments: dict[str, Any], ascii_only: bool, indent: int | None, data: st.DataObject
):
    text = json.dumps(arguments, ensure_ascii=ascii_only, indent=indent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    shown = ArgumentsText()
    pieces = [shown.feed(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    values = {key: json.dumps(v, ensure_ascii=ascii_only) for key, v in arguments.items()}
    assert "".join(pieces) == ", ".join(f"{key}={value}" for key, value in values.items())


def test_a_call_is_typed_as_it_comes():
    events = [CallOpened(0, "paint"), ArgumentsDelta(0, '{"color":"r'), ArgumentsDelta(0, 'ed"}')]
    assert show(*events[:2]) == 'paint(color="r'
    assert show(*events, CallRead(0, CALL)) == 'paint(color="red")\n'
    assert show(CallRead(0, CALL)) == 'paint(color="red", at=[1, 2])\n'
    unfit = ToolCall("ping", {}, (Violation("/arguments", "too short"),))
    assert show(CallRead(0, unfit)) == "ping()  (does not fit: too short)\n"
    assert show(*events[:2], CallCut("<x>{")) == (
        "paint(color=\"r\n(cut call, not delivered) '<x>{'\n"
    )


def test_each_part_is_on_lines_of_its_own():
    events = [ReasoningDelta("\n"), ReasoningDelta("a\n"), ReasoningDelta("\nb\n")]
    events += [ContentDelta("\n\n"), ContentDelta("c"), ContentDelta("d\n"), CallRead(0, CALL)]
    call = 'paint(color="red", at=[1, 2])\n'
    assert show(*events) == f"(reasoning) a\n\nb\ncd\n{call}"
    assert show(*events[3:], *events[6:]) == f"cd\n{call}{call}"
    assert show(ContentDelta("\n")) == ""


def test_on_a_terminal_reasoning_is_dim(monkeypatch: pytest.MonkeyPatch):
    events = [ReasoningDelta("a"), ReasoningDelta("b"), ContentDelta("c")]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert show(*events, out=Terminal()) == f"{DIM}ab{PLAIN}\nc"
    monkeypatch.setenv("NO_COLOR", "1")
    assert show(*events, out=Terminal()) == "(reasoning) ab\nc"


def test_a_terminal_is_not_told_what_to_do():
    title = ContentDelta("\x1b]0;title\x07 \x9b2J\r\n\ttab é 🙂")
    assert show(title, out=Terminal()) == "\\x1b]0;title\\x07 \\x9b2J\\x0d\n\ttab é 🙂"
    assert show(title) == title.text
    assert show(ContentDelta("\ud800")) == "\\ud800"


def test_what_ran_out_of_tokens():
    ran_out = "(the tokens ran out: raise --max-tokens, or the context with -c)\n"
    assert written(reply("length", content="so far")) == f"so far\n{ran_out}"
    truncated = ToolCall("ping", {}, truncated=True)
    assert written(reply("length", calls=(truncated,))) == (
        f"ping()\n(truncated call) ping: its arguments may be incomplete\n{ran_out}"
    )
    assert "(cut call, not delivered) '<tool'" in written(reply("length", unfinished="<tool"))
    ended = (EndedValue("/content", tokens=9),)
    repeated = written(reply(content="so so", ended_values=ended))
    assert repeated == "so so\n(ended because it repeated itself) /content\n"
    assert written(reply(reasoning="a", content="b", calls=(CALL,))) == (
        '(reasoning) a\nb\npaint(color="red", at=[1, 2])\n'
    )


def test_a_pipe_gets_the_results_alone(capsys: pytest.CaptureFixture[str]):
    truncated = ToolCall("ping", {}, truncated=True)
    parts = {"reasoning": "Hm.", "content": "So.", "calls": (CALL, truncated), "unfinished": "<x"}
    show_reply(reply("length", **parts), Screen())
    printed = capsys.readouterr()
    assert printed.out == 'So.\npaint(color="red", at=[1, 2])\nping()\n'
    assert [line.partition(")")[0] for line in printed.err.splitlines()] == [
        "(reasoning",
        "(cut call, not delivered",
        "(truncated call",
        "(the tokens ran out: raise --max-tokens, or the context with -c",
    ]
