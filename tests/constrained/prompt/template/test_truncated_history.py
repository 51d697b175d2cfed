"""Wherever a turn is cut, what was read goes back into the history, and the template renders it."""

import pytest

from benchmarks.inputs.rendered import TOOLS, USER, find_start, render_turns
from constrained.model.reply import derive_id
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.tools.shapes import read_tools
from grammars.parse.parser import parse
from grammars.turn import Turn
from tests.real_templates import NO_CALLS, real_templates


def as_history(turn: Turn) -> list[dict]:
    """The turn as messages, with a result for each call."""
    message: dict = {"role": "assistant", "content": turn.content}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    history = [message]
    results = list[dict]()
    for number, call in enumerate(turn.calls):
        id = call.id or derive_id([1], number)
        function = {"name": call.name, "arguments": call.arguments}
        made = {"id": id, "type": "function", "function": function}
        message.setdefault("tool_calls", []).append(made)
        results.append({"role": "tool", "tool_call_id": id, "name": call.name, "content": "{}"})
    if not results:
        results.append({"role": "user", "content": "Go on."})
    return history + results


@pytest.mark.parametrize("name", sorted(real_templates().keys() - NO_CALLS))
def test_a_cut_turn_is_rendered_again(name: str) -> None:
    teaching = select_format(real_templates()[name])
    state = find_start(teaching)
    tools = read_tools(TOOLS)
    text = list(render_turns(teaching))[-1].text
    cuts = (parse(text[:at], teaching.format, tools, state) for at in range(len(text) + 1))
    turns = {repr(turn): turn for turn in cuts}
    for turn in turns.values():
        shown = Turn(turn.content, turn.reasoning, turn.calls)
        assert teaching.template.render([*USER, *as_history(shown)], TOOLS)
