"""An inferred format has to hold after the generation prompt of its template."""

from dataclasses import replace

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import DetectError, PolicyError
from grammars.infer.probes import ProbedTemplate
from grammars.infer.reasoning import find_state
from grammars.infer.verify import try_after_prompt
from grammars.parse.parser import parse
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, Start, State, Tool, ToolCall
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import (
    Content,
    Format,
    JsonArguments,
    JsonCall,
    Literal,
    Marker,
    Name,
)
from grammars.wire.formats import HERMES, QWEN3_CODER
from tests.found_formats import detect

PING = Tool("ping", lower({"type": "object", "properties": {"a": {"type": "string"}}}))
CALL = (Marker("<to>"), Literal("tool "), Marker("<name>"), Name(), Literal("\n"), JsonArguments())
ROUTED = Format("routed", CALL, contents=(Content("<to>user\n"),), between="\n", before="\n")


def made_up(assistant: str, *, prompt: str, user: str = "<|user|>{{ m.content }}") -> ChatTemplate:
    """A template with this text of an assistant's message, and this generation prompt."""
    return ChatTemplate(
        "{% for t in tools or [] %}{{ t|tojson }}{% endfor %}{% for m in messages %}"
        + "{% if m.role == 'assistant' %}"
        + assistant
        + "{% else %}"
        + user
        + "{% endif %}{% endfor %}{% if add_generation_prompt %}"
        + prompt
        + "{% endif %}"
    )


# Every part of a turn names its recipient; the prompt writes the head up to that name.
RECIPIENTS = made_up(
    "{% if m.content %}<from>me\n<to>all\n<text>{{ m.content }}{% endif %}"
    "{% for t in m.tool_calls or [] %}{{ '\n' if m.content or not loop.first }}<from>me\n<to>"
    "{{ t.function.name }}\n<text>{{ t.function.arguments|tojson }}{% endfor %}<end>",
    prompt="<from>me\n<to>",
)
HEADED = (
    "{{ '\n<|bot|> ' + m.content if not m.tool_calls else '\n\n<|bot|>' }}"
    "{% for t in m.tool_calls or [] %}<call>"
    '{"name": "{{ t.function.name }}", "arguments": {{ t.function.arguments|tojson }}}'
    "</call>{% endfor %}<end>"
)


def test_a_prompt_that_has_written_several_parts_of_a_call() -> None:
    format = detect(RECIPIENTS.render).format
    messages = [{"role": "user", "content": "Hi"}]
    opened = RECIPIENTS.render(messages, add_generation_prompt=True)
    state = find_state(opened, RECIPIENTS.render(messages, add_generation_prompt=False), format)
    assert state.lead == "<from>me\n<to>"
    for choice in Choice.AUTO, Choice.REQUIRED:
        completer = Completer(build_turn(format, [PING], Policy(choice), state))
        two = 'ping\n<text>{"a": "x"}\n<from>me\n<to>ping\n<text>{}'
        assert completer.complete(two) == ""
        assert completer.complete("pong\n<text>{") is None
    expected = (ToolCall("ping", {"a": "x"}), ToolCall("ping", {}))
    assert parse(two, format, [PING], state).calls == expected
    said = "all\n<text>Well.\n<from>me\n<to>ping\n<text>{}"
    assert Completer(build_turn(format, [PING], state=state)).complete(said) == ""
    assert parse(said, format, [PING], state).content == "Well."


@pytest.mark.parametrize(
    "lead",
    ["<to>", "<to>to", "<to>tool ", "<to>tool <na", "<to>tool <name>", "<to>tool <name>p"],
)
def test_the_shortest_call_behind_every_lead(lead: str) -> None:
    state = State(lead=lead)
    for markers in ({}, {"<to>": 300, "<name>": 301}):
        grammar = build_turn(ROUTED, [PING], Policy(Choice.REQUIRED), state, markers)
        text = Completer(grammar).complete("")
        assert text is not None
        assert lead + text == "<to>tool <name>ping\n{}"
        assert parse(text, ROUTED, [PING], state).calls == (ToolCall("ping", {}),)


def test_a_lead_that_no_call_has_leaves_no_empty_turn() -> None:
    with pytest.raises(PolicyError, match="the prompt begins the turn with '<to>user'"):
        build_turn(ROUTED, [PING], Policy(Choice.REQUIRED), State(lead="<to>user"))
    assert build_turn(ROUTED, [PING], state=State(lead="<to>user"))


def test_a_call_does_not_repeat_the_prompt() -> None:
    fits = made_up(HEADED.replace("\n\n", "\n"), prompt="\n<|bot|>")
    assert detect(fits.render).format.opener == Marker("<call>")
    # The header may have other white space in the history than in the prompt.
    for prompt in (" <|bot|>", " <|bot|>\n"):
        begun = detect(made_up(HEADED, prompt=prompt).render).evidence
        texts = {row.probe: row.text for row in begun}
        assert texts["one call after the prompt, required"].startswith("<call>")
    unlike = made_up(HEADED, prompt=" <|bot|>\nWell")
    with pytest.raises(DetectError, match=r"the generation prompt has written '<\|bot\|>' already"):
        detect(unlike.render)


def test_a_format_that_is_read_as_something_else_is_refused() -> None:
    chat = ProbedTemplate(RECIPIENTS.render, None)
    format = detect(RECIPIENTS.render).format
    assert list(try_after_prompt(chat, format))
    for wrong in HERMES, QWEN3_CODER:
        ending = replace(wrong, contents=(Content("<from>me\n<to>all\n<text>"),))
        with pytest.raises(DetectError, match="after the generation prompt"):
            list(try_after_prompt(chat, ending))


def test_an_open_block_comes_before_the_call() -> None:
    template = made_up(
        "{{ m.content }}{% for t in m.tool_calls or [] %}<call>"
        '{"name": "{{ t.function.name }}", "arguments": {{ t.function.arguments|tojson }}}'
        "</call>{% endfor %}<end>",
        prompt="<|bot|><think>\n",
        user="<|user|>{{ m.content }}<|bot|>",
    )
    found = detect(template.render)
    probes = {row.probe: row.text for row in found.evidence}
    assert probes["one call after the prompt, required"].startswith("I think.\n</think>")
    assert found.format.call[0] == Marker("<call>")
    assert isinstance(found.format.hole, JsonCall)
    assert State(Start.OPEN).lead == ""


def test_a_call_may_go_on_with_the_header_of_the_turn() -> None:
    calls = (
        '{{ " calls tools\\n[" }}{% for t in m.tool_calls %}{{ ", " if not loop.first }}'
        '{"name": "{{ t.function.name }}", "arguments": {{ t.function.arguments|tojson }}}'
        "{% endfor %}]<end><stop>"
    )
    said = "{{ '\\n' + m.content }}<end><next>"
    template = made_up(
        "<from>me{% if m.tool_calls %}" + calls + "{% else %}" + said + "{% endif %}",
        prompt="<from>me",
    )
    format = detect(template.render).format
    assert format.opening == (Marker("calls tools"), Literal("\n["))
    assert (format.closing, format.ends) == ((Literal("]"),), ("<end>", "<stop>"))
    first = '{"name": "ping", "arguments": {"a": "x"}}'
    second = '{"name": "ping", "arguments": {}}'
    two = f" calls tools\n[{first}, {second}]"
    for choice in Choice.AUTO, Choice.REQUIRED:
        assert Completer(build_turn(format, [PING], Policy(choice))).complete(two) == ""
    assert parse(two, format, [PING]).calls == (ToolCall("ping", {"a": "x"}), ToolCall("ping", {}))
    assert parse("\nWell.", format, [PING]).content.strip() == "Well."
