"""Messages with a header (harmony), in the many ways in which models write one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from grammars.parse.parser import Parser, collect, parse
from grammars.schema.lowering.lower import lower
from grammars.turn import Event, Tool, Turn
from grammars.wire.formats import HARMONY
from tests.turn_strategies import chunkings

TOOLS = (Tool("get", lower({"properties": {"city": {"type": "string"}}})),)
CALL = '{"city": "<|message|> to=get"}'
SPACES = st.sampled_from(["", " ", "  "])


@st.composite
def headers(draw: DrawFn, channels: tuple[str, ...], recipients: tuple[str, ...]) -> str:
    """A header: the last channel counts, and so does the last recipient."""
    parts = [f"<|channel|>{draw(SPACES)}{draw(st.sampled_from(channels))}"]
    if recipients:
        parts.append(f" to={draw(st.sampled_from(recipients))}")
    parts = draw(st.permutations(parts))
    if draw(st.booleans()):
        parts.append(
            f"<|constrain|>{draw(SPACES)}{draw(st.sampled_from(['json', 'code', 'JSON']))}"
        )
    elif draw(st.booleans()):
        parts.append(" json")
    if draw(st.booleans()):
        other = draw(st.sampled_from(["commentary to=assistant<|channel|>", "final<|channel|>"]))
        parts[0] = parts[0].replace("<|channel|>", f"<|channel|>{other}")
    head = "<|start|>assistant" if draw(st.booleans()) else ""
    return head + draw(SPACES).join(parts) + draw(SPACES) + "<|message|>"


def read(text: str) -> Turn:
    return parse(text, HARMONY, TOOLS, recover=True)


@given(header=headers(("commentary", "analysis", "final"), ("functions.get", "get")))
def test_the_recipient_makes_a_call(header: str) -> None:
    # A recipient in front of another one would count less; only that of the tool is last here.
    header = header.replace("to=assistant", "")
    turn = read(header + CALL)
    assert [(c.name, c.arguments, c.valid) for c in turn.calls] == [
        ("get", {"city": "<|message|> to=get"}, True)
    ]
    assert (turn.content, turn.reasoning) == ("", "")


@given(
    thought=headers(("analysis",), ()),
    answer=headers(("final", "commentary"), ()),
    end=st.sampled_from(["<|end|>", " <|end|>", "<|end|>\n", ""]),
    data=st.data(),
)
def test_the_channel_tells_reasoning_from_content(
    thought: str, answer: str, end: str, data: st.DataObject
) -> None:
    text = f"{thought}hm to=get{end}{answer}so to=get{end}"
    turn = read(text)
    assert (turn.reasoning.strip(), turn.content.strip()) == ("hm to=get", "so to=get")
    parser = Parser(HARMONY, TOOLS, recover=True)
    events: list[Event] = []
    for piece in data.draw(chunkings(text)):
        events += parser.feed(piece)
    assert collect([*events, *parser.close()]) == turn


@pytest.mark.parametrize(
    "text",
    [
        "set x to=5 and go",
        "a <|channel|>",
        "<|channel|>final or not<|message|>x",
        " to=get " + "json " * 100 + "<|message|>x",
        "<|start|>user<|message|>x",
    ],
)
def test_what_is_no_header_is_text(text: str) -> None:
    assert read(text) == Turn(text)


def test_a_tool_that_is_not_offered_is_called_and_not_valid() -> None:
    (call,) = read('<|channel|>commentary to=functions.put<|message|>{"a": 1}').calls
    assert (call.name, call.arguments, call.valid) == ("put", {"a": 1}, False)
    text = "<|channel|>commentary to=functions.put<|message|>a = 1"
    assert read(text) == Turn(text)


@given(header=headers(("commentary", "analysis"), ("functions.nope", "nope", "browser.search")))
def test_a_tool_that_is_not_offered_makes_an_invalid_call(header: str) -> None:
    header = header.replace("to=assistant", "")
    turn = read(header + CALL)
    (call,) = turn.calls
    assert call.name in ("nope", "browser.search")
    assert [error.pointer for error in call.errors] == ["/name"]
    assert (turn.content, turn.reasoning) == ("", "")


@pytest.mark.parametrize("recipient", ["user", "assistant", "system"])
def test_a_message_to_somebody_else_is_no_call(recipient: str) -> None:
    text = f"<|channel|>commentary to={recipient}<|message|>{CALL}"
    assert read(text) == Turn(CALL)


def test_code_is_no_call() -> None:
    assert read("<|channel|>analysis to=python code<|message|>print(1)") == Turn("", "print(1)")
