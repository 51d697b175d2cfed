"""Where a turn ends that the template closes with no marker; which turns the template has changed,
so that they stay as it writes them; and what is said of those that are not taken over."""

from typing import Any

import pytest

from benchmarks.inputs.sources import FIVE
from benchmarks.inputs.tool_sets import SAMPLE
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.model.compile.compiler import Compiler
from constrained.prompt.prompt_reuse import Recall
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.special_tokens import Prompt
from constrained.prompt.turn_boundaries import TurnBoundaries
from grammars.wire.formats import HERMES as HERMES_FORMAT
from tests.constrained.prompt.histories import offer, replay
from tests.constrained.prompt.kept_turns import (
    DROPPING,
    MARKERS,
    RESULT,
    USER,
    WRITTEN,
    prompt_of,
    said,
    start,
    write,
)
from tests.templates import HERMES

END = "{{- '<|im_end|>\\n' }}\n{%- elif message.role == 'tool' %}"
ENDLESS = HERMES.replace(END, END.replace("<|im_end|>", ""))
"""A template whose turns end where the next message begins."""
LAST = """{%- set last = namespace(user=-1) %}{%- for m in messages %}
{%- if m.role == 'user' %}{%- set last.user = loop.index0 %}{%- endif %}{%- endfor %}"""
HEAD = "{{- '<|im_start|>user\\n' + message.content"
MOVING = LAST + HERMES.replace(
    HEAD, "{{- '<|im_start|>system\\nTools!<|im_end|>\\n' if loop.index0 == last.user }}" + HEAD
)
"""A template that writes the tools in front of the last message of the user."""
OPENING = "{%- if add_generation_prompt %}\n"
INSTRUCTING = HERMES.replace(OPENING, OPENING + "{{- '<|im_start|>system\\nGo on!<|im_end|>\\n' }}")
"""A template that writes instructions in front of the turn that is to come."""
ANSWER = {"role": "assistant", "content": "Red."}
ONE, OTHER = [USER, said(), RESULT], [USER, ANSWER, USER]


def compiler_of(source: str) -> Compiler:
    assert source != HERMES
    return Compiler(byte_vocabulary(MARKERS), ChatTemplate(source))


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (WRITTEN, ONE),
        (WRITTEN, [USER, said(thought="", arguments='{"color":"red"}'), RESULT]),
        ("Red.", OTHER),
        ("Red.", [USER, ANSWER | {"content": "Red. \n"}, USER]),
        ("Red.\n", OTHER),  # the model has written the line break of the template
    ],
)
def test_a_turn_without_a_marker_at_its_end(text: str, messages: list[Any]):
    compiler = compiler_of(ENDLESS)
    seen = write(compiler, start(compiler), text, said() if text is WRITTEN else ANSWER)
    turn = start(compiler, messages)
    assert turn.prompt.reuse.turn
    rest = b"<|im_start|>user\n" + (b"<tool_response>\n" if text is WRITTEN else b"Paint")
    assert prompt_of(turn).startswith(seen.rstrip(b"\n") + b"\n" + rest)


END_CASES = [
    ('<tool_call>\n{"name": "paint", "arguments": {"!": "!"}}\n</tool_call>|\n?', "|\n?"),
    ('<tool_call>\n{"name": "paint", "arguments": {"!": "!"}, "done": 1}\n</tool_call>|?', None),
    ('<tool_call>\n{"name": "paint", "arguments": {"!": "!"}}\n</tool_call>', None),
    ('?<tool_call>\n{"name": "paint", "arguments": {"!": "!"}}\n</tool_call>|?', None),
    ('{"name": "paint", "arguments": {"!": "!"}}</s>\n?', "</s>\n?"),
]


@pytest.mark.parametrize(("text", "rest"), END_CASES)
def test_the_end_of_a_call(text: str, rest: str | None):
    """It is where the format ends it, or at a marker; where neither is, it is not guessed."""
    bounds = TurnBoundaries(HERMES_FORMAT, ["</s>"])
    end = bounds.find_end(Prompt((text,)), said(), inside="!", after="?")
    assert (None if end is None else text[end:]) == rest


def test_a_template_that_moves_the_tools():
    """Taken over, the turn would bring the tools with it, once for each message of the user."""
    compiler = compiler_of(MOVING)
    write(compiler, start(compiler), WRITTEN, said())
    second = start(compiler, ONE)
    assert second.prompt.reuse.turn
    write(compiler, second, "Red.", ANSWER)
    messages = [*ONE, ANSWER, USER]
    third = start(compiler, messages, recall=Recall.KEEP)
    assert third.prompt.reuse.turn is None
    assert third.tokens == start(compiler_of(MOVING), [USER, said(), RESULT, ANSWER, USER]).tokens
    assert prompt_of(third).count(b"Tools!") == 1
    write(compiler, third, "Green.", ANSWER | {"content": "Green."})
    more = start(compiler, [*messages, ANSWER | {"content": "Green."}, USER])
    assert prompt_of(more).count(b"Tools!") == 1


def test_a_template_that_moves_instructions():
    compiler = compiler_of(INSTRUCTING)
    write(compiler, start(compiler), WRITTEN, said())
    turn = start(compiler, ONE)
    assert turn.prompt.reuse.turn is None
    assert turn.tokens == start(compiler_of(INSTRUCTING), ONE).tokens


def test_a_tag_that_the_template_leaves_out():
    """As that of DeepSeek R1 does after the results of calls; the model has seen it."""
    opened = "{%- if enable_thinking is defined %}"
    tag = "{{- '<turn>\\n' if messages[-1].role == 'tool' }}"
    compiler = compiler_of(HERMES.replace(opened, tag + opened))
    write(compiler, start(compiler), WRITTEN, said())
    second = start(compiler, ONE)
    seen = write(compiler, second, WRITTEN, said())
    assert seen.endswith(b"<turn>\n" + WRITTEN.encode())
    third = start(compiler, [*ONE, said(), RESULT])
    assert third.prompt.reuse.turn
    assert prompt_of(third).startswith(seen + b"<|im_end|>\n")


@pytest.mark.parametrize("enable_thinking", [True, False])
def test_a_block_that_the_prompt_opens_is_no_change(enable_thinking: bool):
    """The template begins the turn with a block, which it does not write in earlier turns."""
    compiler = Compiler(byte_vocabulary(MARKERS), ChatTemplate(HERMES))
    variables = {"enable_thinking": enable_thinking}
    first = start(compiler, template_kwargs=variables)
    text = WRITTEN.partition("<think>\n" if enable_thinking else "</think>\n\n")[2]
    thought = "Hm." if enable_thinking else ""
    seen = write(compiler, first, text, said(thought))
    turn = start(compiler, [USER, said(""), RESULT], template_kwargs=variables)
    assert prompt_of(turn).startswith(seen + b"<|im_end|>\n")


def test_a_turn_that_is_not_taken_over():
    compiler = compiler_of(DROPPING)
    first = start(compiler)
    assert first.prompt.reuse.turn is None
    write(compiler, first, WRITTEN, said())
    assert start(compiler, ONE).prompt.reuse.turn
    assert start(compiler, [USER, said("No."), RESULT]).prompt.reuse.turn is None
    assert start(compiler, [*ONE, ANSWER, USER]).prompt.reuse.turn is None
    last = start(compiler, [USER, said(), ANSWER, USER], recall=Recall.KEEP)
    assert last.prompt.reuse.turn is None


@pytest.mark.parametrize("format", FIVE)
def test_a_conversation_in_which_the_user_speaks_again(format: str):
    tools = offer(SAMPLE / "tools_github.jsonl", 2_000)
    row = replay(format, tools, 5, "no reasoning", Recall.KEEP, 2)
    assert row.spliced == row.turns == 4
    assert not row.missed
    assert row.new == row.computed
