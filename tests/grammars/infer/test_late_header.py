"""Turns after a result: a header that the prompt lacks, calls that are written otherwise."""

from dataclasses import replace

import pytest

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format, LateHeader
from grammars.wire.formats import COMMAND_R7B, HARMONY, HERMES
from tests.found_formats import detect

PING = Tool("ping", lower({"type": "object", "properties": {}}))
TURNS = (Turn("It is."), Turn(calls=(ToolCall("ping", {}),)))


def made_up(*, content: str, calls: str, prompt: str = "") -> ChatTemplate:
    """A template with these headers after a result."""
    source = (
        "{% set after = namespace(result=false) %}{% for t in tools or [] %}{{ t|tojson }}"
        "{% endfor %}{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% if m.tool_calls %}{{ CALLS if after.result else '<|bot|>' }}"
        "{% for t in m.tool_calls %}<call>"
        '{"name": "{{ t.function.name }}", "arguments": {{ t.function.arguments|tojson }}}'
        "</call>{% endfor %}{% else %}{{ CONTENT if after.result else '<|bot|>' }}{{ m.content }}"
        "{% endif %}<end>{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}"
        "{% set after.result = m.role == 'tool' %}{% endfor %}"
        "{% if add_generation_prompt %}{{ PROMPT if after.result else '<|bot|>' }}{% endif %}"
    )
    for word, text in {"CALLS": calls, "CONTENT": content, "PROMPT": prompt}.items():
        source = source.replace(word, repr(text))
    return ChatTemplate(source)


def find_state_after_result(template: ChatTemplate, format: Format) -> State:
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "ping", "arguments": {}}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "abcdefgh1"},
    ]
    opened = template.render(messages, add_generation_prompt=True)
    plain = template.render(messages, add_generation_prompt=False)
    return find_state(opened, plain, format)


@pytest.mark.parametrize(
    ("content", "calls"), [("", "<|bot|>"), ("<|bot|>", ""), ("<|bot|>", "<|bot|>")]
)
def test_a_turn_may_begin_with_the_header_that_the_prompt_lacks(content: str, calls: str) -> None:
    template = made_up(content=content, calls=calls)
    found = detect(template.render)
    late = LateHeader("<|bot|>", before_content=bool(content), before_calls=bool(calls))
    assert found.format.late_header == late
    assert "where the prompt lacks it" in found.evidence[-1].conclusion
    state = find_state_after_result(template, found.format)
    assert state.header == "<|bot|>"
    for turn, header in zip(TURNS, (content, calls), strict=True):
        written = render(turn, found.format, [PING], state)
        assert written.startswith("<|bot|>") == bool(header)
        for text in ("<|bot|>" + written.removeprefix("<|bot|>"), written.removeprefix("<|bot|>")):
            assert parse(text, found.format, [PING], state) == turn
            for choice in (Choice.AUTO, Choice.REQUIRED)[: 1 + len(turn.calls)]:
                grammar = build_turn(found.format, [PING], Policy(choice), state)
                assert Completer(grammar).complete(text) == ""


@pytest.mark.parametrize("header", ["<|bot|>", "### Assistant:\n"])
@pytest.mark.parametrize("known", [HERMES, HARMONY, COMMAND_R7B], ids=lambda known: known.name)
def test_reasoning_follows_the_header(known: Format, header: str) -> None:
    """In hermes, content may begin with the text of the header, in the others with none."""
    format = replace(known, late_header=LateHeader(header, True, True))
    state = State(header=header, calls=1)
    _, tokenizer = byte_tokenizer(())
    for turn in (*TURNS, replace(TURNS[0], reasoning="Hmm"), replace(TURNS[1], reasoning="Hmm")):
        for choice in (Choice.AUTO, Choice.REQUIRED)[: 1 + len(turn.calls)]:
            grammar = build_turn(format, [PING], Policy(choice), state)
            matcher = Matcher.compile(tokenizer, grammar.lark)
            written = render(turn, format, [PING], state)
            for text in (written, written.removeprefix(header)):
                assert parse(text, format, [PING], state).reasoning == turn.reasoning
                assert Completer(grammar).complete(text) is not None
                assert matcher.count_accepted(list(text.encode())) == len(text)


@pytest.mark.parametrize(("header", "prompt"), [("", ""), ("<|bot|>", "<|bot|>")])
def test_other_prompts_lack_no_header(header: str, prompt: str) -> None:
    template = made_up(content=header, calls=header, prompt=prompt)
    format = detect(template.render).format
    assert format.late_header is None
    assert find_state_after_result(template, format).header == ""


def test_a_call_that_is_written_otherwise_after_a_result_is_reported() -> None:
    template = made_up(content="", calls="")
    reports = [row.probe for row in detect(template.render).evidence]
    assert "a call after a result" not in reports
    source = template.source.replace("<call>", "{{ '' if after.result else '<call>' }}")
    found = detect(ChatTemplate(source).render)
    assert found.evidence[-1].probe == "a call after a result"
    assert found.evidence[-1].text.startswith('{"name": "probe_beta"')


def test_a_prompt_with_a_header_takes_no_second_one() -> None:
    template = made_up(content="", calls="<|bot|>")
    format = detect(template.render).format
    grammar = build_turn(format, [PING], Policy(Choice.REQUIRED), State())
    assert Completer(grammar).complete("<call>") is not None
    assert Completer(grammar).complete("<|bot|>") is None
