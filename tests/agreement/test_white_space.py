"""White space that models add or leave out is accepted, and changes no call."""

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, Start, State, Tool, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.agreement.case_checks import QUIET, by_name, modes
from tests.agreement.chosen_formats import SCALE, each, is_plain
from tests.agreement.matching import Masked
from tests.agreement.sample_tools import offers
from tests.real_templates import require_models_directory
from tests.templates import FOLDER, tool
from tests.turn_strategies import Case, cases

SPACES = ("", "\n", "\n\n", " ", "\t", "\n ", " \n", "\t\n")


@st.composite
def spaced(draw: DrawFn, case: Case) -> str:
    """The turn of the case with other white space around its parts."""
    turn = case.turn
    format = case.format
    state = case.state
    block = case.format.reasoning

    def space() -> str:
        return draw(st.sampled_from(SPACES))

    text = space()
    if block is not None and (turn.reasoning or state.start is Start.OPEN):
        opener = block.opener.text + space() if state.start is Start.PLAIN else ""
        text += opener + turn.reasoning + space() + block.closer.text + space()
    numbered = State(calls=case.state.calls)
    calls = render(Turn(calls=turn.calls), format, case.tools, numbered) if turn.calls else ""
    return text + turn.content + (space() if turn.content else "") + calls


@each(is_plain)
@settings(QUIET, max_examples=15 * SCALE)
@given(data=st.data())
def test_white_space_changes_no_turn(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name), offers()))
    text = data.draw(spaced(case))
    for single in modes(case):
        grammar = Masked(case.format, case.tools, case.policy, case.state, single)
        assert grammar.accepts(case.text), (grammar.prefix(case.text), grammar.grammar)
        assert grammar.accepts(text), (text, grammar.prefix(text), grammar.grammar)
    assert squeeze(parse(text, case.format, case.tools, case.state)) == squeeze(case.turn)


def squeeze(turn: Turn) -> Turn:
    """The turn without the white space around its texts."""
    calls = tuple(replace(call, id=None) for call in turn.calls)
    return replace(
        turn, content=turn.content.strip(), reasoning=turn.reasoning.strip(), calls=calls
    )


@pytest.mark.parametrize("single", [False, True], ids=["text", "token"])
@pytest.mark.parametrize("name", [format.name for format in FORMATS])
def test_a_line_break_after_calls_is_not_the_beginning_of_another_one(
    name: str, single: bool
) -> None:
    """Models end their turns with one: where it could only come in front of a further call, they
    wrote calls without end."""
    format = by_name(name)
    get = Tool("get", lower({"type": "object", "properties": {"a": {"type": "integer"}}}))
    calls = tuple(ToolCall("get", {"a": number}) for number in (1, 2))
    for policy in (Policy(), Policy(choice=Choice.REQUIRED)):
        grammar = Masked(format, [get], policy, State(), single)
        for count in (1,) if format.single else (1, 2):
            text = render(Turn(calls=calls[:count]), format, [get], State())
            for end in ("",) if format.single else ("", "\n"):
                assert grammar.accepts(text + end), grammar.prefix(text + end)
                read = parse(text + end, format, [get])
                assert [call.arguments for call in read.calls] == [{"a": 1}, {"a": 2}][:count]
                assert not read.content


MESSAGES = [{"role": "user", "content": "The weather?"}]
OFFER = [
    tool("ping"),
    tool("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}}),
]
CALL = {"name": "get_weather", "arguments": {"city": "Paris <b>", "days": 3}}
TURNS = (
    ("", "", [CALL]),
    ("I look.", "", [CALL]),
    ("", "Hm.", [CALL]),
    ("I look.", "Hm.\n\nAh.", [CALL, CALL]),
    ("Sunny.", "Hm.", []),
)
"""Content, reasoning and calls."""
KWARGS = ({}, {"enable_thinking": True}, {"enable_thinking": False})
REAL = {
    "Bielik-11B-v3.0-Instruct": {Start.PLAIN, Start.OPEN},
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {Start.OPEN, Start.CLOSED},
    "Qwen-Qwen3-0.6B": {Start.PLAIN, Start.CLOSED},
    "Qwen3-Coder": {Start.PLAIN},
    "Qwen3.5-4B": {Start.OPEN, Start.CLOSED},
    "Reka-Edge": {Start.PLAIN, Start.OPEN},
    "StepFun3.5-Flash": {Start.OPEN},
    "ibm-granite-granite-4.0": {Start.PLAIN},
    "meta-llama-Llama-3.1-8B-Instruct": {Start.PLAIN},
    "mistralai-Ministral-3-14B-Reasoning-2512": {Start.PLAIN},
}
"""Templates that llama.cpp keeps, and how their prompts end."""


@dataclass(frozen=True)
class Written:
    """A turn as a template writes it after its own prompt, and the names of its calls."""

    format: Format
    state: State
    text: str
    calls: list[Any]


def read_template(path: Path) -> ChatTemplate:
    return ChatTemplate(path.read_text(encoding="utf-8"), bos_token="<s>", eos_token="</s>")


def write_turns(template: ChatTemplate) -> list[Written]:
    """The turns of this template, thinking or not, where it writes them after its own prompt."""
    teaching = select_format(template)
    teaching = replace(teaching, template=teaching.template.without_forms())
    written: list[Written] = []
    for kwargs, (content, thought, calls) in itertools.product(KWARGS, TURNS):
        made = [{"id": "abcdef123", "type": "function", "function": call} for call in calls]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        message |= {"reasoning_content": thought} if thought else {}
        message |= {"tool_calls": made} if calls else {}
        if len(calls) > 1 and teaching.format.single:
            continue
        prompt, plain, whole = (
            teaching.template.render(messages, OFFER, add_generation_prompt=on, **kwargs)
            for messages, on in (
                (MESSAGES, True),
                (MESSAGES, False),
                ([*MESSAGES, message], False),
            )
        )
        if whole.startswith(prompt):
            text = whole.removeprefix(prompt)
            end = min(text.index(end) for end in teaching.format.ends if end in text)
            state = find_state(prompt, plain, teaching.format)
            written.append(Written(teaching.format, state, text[:end], calls))
    return written


def spellings(written: Written) -> list[str]:
    """The turn as it stands, and with other white space in front of it and of its first call."""
    opener = written.format.opener
    head, call = written.text, ""
    if written.calls and opener is not None:
        head, _, call = written.text.partition(opener.text)
        call = opener.text + call
    around = [space + head.rstrip() + space + call for space in SPACES if call or not space]
    behind = [written.text + "\n"] if written.calls and not written.format.single else []
    return [written.text, *around, *behind]


def assert_written_is_read(written: Written) -> None:
    tools = read_tools(OFFER)
    wanted = squeeze(parse(written.text, written.format, tools, written.state))
    assert [call.name for call in wanted.calls] == [call["name"] for call in written.calls]
    assert [call.arguments for call in wanted.calls] == [c["arguments"] for c in written.calls]
    for single in (False, True):
        grammar = Masked(written.format, tools, Policy(), written.state, single)
        for text in spellings(written):
            assert grammar.accepts(text), (text, grammar.prefix(text))
            assert squeeze(parse(text, written.format, tools, written.state)) == wanted


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.jinja")))
def test_turns_of_the_templates_of_the_formats(name: str) -> None:
    turns = write_turns(read_template(FOLDER / f"{name}.jinja"))
    assert turns
    assert {turn.format.name for turn in turns} == {name}
    for written in turns:
        assert_written_is_read(written)


@pytest.mark.parametrize("name", REAL)
def test_turns_of_real_templates(name: str) -> None:
    turns = write_turns(read_template(require_models_directory() / "templates" / f"{name}.jinja"))
    assert {turn.state.start for turn in turns} == REAL[name]
    for written in turns:
        assert_written_is_read(written)
