"""The format that a template teaches, read off what a small stand-in for a template renders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import DetectError, Error
from grammars.infer.detection import Origin
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, Start, State, Tool, ToolCall, Turn
from grammars.wire.format import (
    Format,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Node,
    find_named,
    spell_fixed,
)
from grammars.wire.formats import FORMATS, HERMES, QWEN3_CODER
from tests.agreement.matching import Masked
from tests.found_formats import detect, find_registered
from tests.real_templates import real_templates

Message = Mapping[str, Any]


def chat(
    format: Format,
    *,
    end: str = "<|im_end|>\n",
    opening: str = "<|im_start|>assistant\n",
    refuses: Callable[[Sequence[Message]], bool] = lambda messages: False,
) -> Any:
    """Renders conversations as a ChatML template with this format does."""

    def render_chat(
        messages: Sequence[Message],
        tools: Any = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        if refuses(messages) or not all(isinstance(m["content"], str) for m in messages):
            raise Error("refused")
        text = ""
        for message in messages:
            calls = tuple(
                ToolCall(c["function"]["name"], c["function"]["arguments"])
                for c in message.get("tool_calls", ())
            )
            thought = message.get("reasoning_content", "") if format.reasoning else ""
            turn = Turn(message["content"], thought, calls)
            written = render(turn, format) + format.after * bool(calls)
            text += f"<|im_start|>{message['role']}\n{written}{end}"
        return text + (opening if add_generation_prompt else "")

    return render_chat


@pytest.fixture(params=[lambda render: detect(render).format, find_registered])
def find(request: pytest.FixtureRequest) -> Callable[[Any], Format]:
    """Both ways to find a format."""
    return request.param


Find = Callable[[Any], Format]
CALLS = Turn(calls=(ToolCall("f", {"a": 1}), ToolCall("g", {})))


@pytest.mark.parametrize("format", [HERMES, QWEN3_CODER], ids=lambda f: f.name)
def test_a_format_is_found_with_its_ends(format: Format, find: Find) -> None:
    assert find(chat(format)) == format
    spaced = replace(format, before="\n\n")
    assert find(chat(spaced)) == spaced
    assert find(chat(format, end="</s>")).ends[0] == "</s>"


def test_separators_are_inferred() -> None:
    format = replace(HERMES, before="\n\n", between="", after="\n")
    assert detect(chat(format)).format == format
    assert detect(chat(format, end="")).format.ends == ()


def test_the_spelling_of_json_is_found(find: Find) -> None:
    style = JsonStyle(",", ":", ascii=True)
    nodes = tuple(replace(n, style=style) if isinstance(n, JsonCall) else n for n in HERMES.call)
    assert find(chat(replace(HERMES, call=nodes))).call == nodes


def test_the_reasoning_block_is_found_as_it_is_written(find: Find) -> None:
    assert HERMES.reasoning is not None
    tight = replace(HERMES.reasoning, pad_open="", pad_close="", after="\n")
    assert find(chat(replace(HERMES, reasoning=tight))).reasoning == tight
    silent = replace(HERMES, reasoning=None)
    opens = chat(silent, opening="<|im_start|>assistant\n<think>\n")
    assert find(opens).reasoning == HERMES.reasoning


def test_a_known_format_is_found_with_other_white_space() -> None:
    opener, *middle, closer = HERMES.call
    assert isinstance(opener, Marker)
    assert isinstance(closer, Marker | Literal)
    tag = Marker(closer.text.strip())
    calls: list[tuple[Node, ...]] = [
        (opener, *middle, Literal("  "), tag, Literal("\n")),
        (opener, Literal(" \n"), *middle, tag),
        (opener, *middle, tag),
    ]
    for call in calls:
        spaced = replace(HERMES, call=call)
        found = find_registered(chat(spaced), [HERMES])
        assert render(CALLS, found) == render(CALLS, spaced)
        assert found.name == "hermes"
        assert found.opener == HERMES.opener


def test_what_closes_only_several_calls_may_be_left_out() -> None:
    several = find_named("deepseek_r1", FORMATS)
    assert several is not None

    def render_chat(messages: Sequence[Message], *rest: Any, **kwargs: Any) -> str:
        text = chat(several)(messages, *rest, **kwargs)
        if len(messages[-1].get("tool_calls", ())) == 1:
            return text.replace(spell_fixed(several.closing), "")
        return text

    found = find_registered(render_chat, [several])
    assert not found.closes_one
    assert find_registered(chat(several), [several]).closes_one
    tools = [Tool("f", lower({"type": "object", "properties": {"a": {"type": "integer"}}}))]
    text = render(Turn(calls=(ToolCall("f", {"a": 1}),)), found)
    for written in (text, text.removesuffix(spell_fixed(several.closing))):
        assert Masked(found, tools, Policy(Choice.REQUIRED), State(), False).accepts(written)
        assert parse(written, found, tools).calls[0].arguments == {"a": 1}


def test_a_call_that_is_closed_with_its_opener_is_a_slip() -> None:
    opener, *middle, _ = HERMES.call
    assert isinstance(opener, Marker)
    slip = replace(HERMES, call=(opener, *middle, Literal(f"\n{opener.text}")))
    with pytest.raises(DetectError, match="closed with '<tool_call>', which opens it"):
        detect(chat(slip))


def test_no_reasoning_block_is_invented() -> None:
    silent = replace(HERMES, reasoning=None)
    assert detect(chat(silent)).format.reasoning is None
    assert find_registered(chat(silent), [silent]).reasoning is None


def test_a_format_with_reasoning_that_no_block_describes_is_not_inferred() -> None:
    assert HERMES.reasoning is not None
    odd = replace(HERMES.reasoning, pad_open=" so: ")
    found = detect(chat(replace(HERMES, reasoning=odd)))
    assert found.origin is Origin.REGISTERED
    assert "reasoning is written in no known way" in found.evidence[0].conclusion


def test_what_a_template_refuses_is_left_as_it_is_known(find: Find) -> None:
    def refuses(messages: Sequence[Message]) -> bool:
        return bool(messages[-1]["content"] and "tool_calls" in messages[-1])

    found = find(chat(replace(HERMES, before="\n\n"), refuses=refuses))
    assert found.before == HERMES.before
    assert found.reasoning == HERMES.reasoning  # seen without a call


def test_a_format_that_nobody_knows_is_inferred() -> None:
    other = replace(HERMES, call=(Marker("<call>"), *HERMES.call[1:]))
    found = detect(chat(other))
    assert found.origin is Origin.INFERRED
    assert found.format == replace(other, name="inferred")
    with pytest.raises(DetectError, match="in a format that is not known"):
        find_registered(chat(other))


def test_what_cannot_be_inferred_is_found_in_the_registry() -> None:
    template = real_templates()["openai-gpt-oss-120b"]
    found = detect(template.render)
    assert (found.format.name, found.origin) == ("harmony", Origin.REGISTERED)
    assert "harmony" in found.evidence[0].conclusion
    assert "content beside a call as reasoning" in found.evidence[-1].conclusion


def test_a_template_without_calls_is_refused(find: Find) -> None:
    with pytest.raises(DetectError, match="writes no tool calls"):
        find(chat(HERMES, refuses=lambda messages: True))


@pytest.mark.parametrize(
    ("prompt", "state"),
    [
        ("<|im_start|>assistant\n", State()),
        ("<|im_start|>assistant\n<think>", State(Start.OPEN, "\n")),
        ("<|im_start|>assistant\n<think>\n", State(Start.OPEN, "")),
        ("<|im_start|>assistant\n<think>\n ", State(Start.OPEN, "")),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", State(Start.CLOSED, "")),
        ("<|im_start|>assistant\n<think></think>\n", State(Start.CLOSED, "\n")),
        ("<|im_start|>assistant\n</think>", State(Start.CLOSED, "\n\n")),
    ],
)
def test_the_end_of_the_prompt_is_the_start_of_the_turn(prompt: str, state: State) -> None:
    conversation = "<|im_start|>user\nWhat is <think>?<|im_end|>\n"
    assert find_state(conversation + prompt, conversation, HERMES) == state
    assert find_state(prompt, "", replace(HERMES, reasoning=None)) == State()


def test_a_template_that_always_opens_the_turn() -> None:
    for text, state in (
        ("<|user|>a<|assistant|><think>\n", State(Start.OPEN, "")),
        ("<|user|>a<|assistant|><think></think>", State(Start.CLOSED, "\n\n")),
        ("<|user|><think>a<|assistant|>", State()),
    ):
        assert find_state(text, text, HERMES) == state


@pytest.mark.parametrize(
    "arguments",
    [
        '{% for k, v in c.arguments.items() %}"{{ k }}": "{{ v }}"{% endfor %}',
        '{% for k, v in c.arguments.items() %}"{{ k }}": {{ v }}, {% endfor %}',
        "{% for k, v in c.arguments.items() %}{{ k }}: {{ v }}; {% endfor %}",
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        '<c>{"name": "{{ c.name }}", "arguments": ARGUMENTS}</c>',
        '<c>{"arguments": ARGUMENTS, "name": "{{ c.name }}", "id": "{{ t.id }}"}</c>',
        "<c>ARGUMENTS {{ c.name }} {{ t.id }}</c>",
    ],
)
def test_arguments_put_together_by_hand_are_refused(call: str, arguments: str) -> None:
    written = call.replace("ARGUMENTS", "{{ '{' }}" + arguments + "{{ '}' }}")
    template = ChatTemplate(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for t in m.tool_calls or [] %}"
        "{% set c = t.function %}" + written + "{% endfor %}<|end|>{% endfor %}"
    )
    with pytest.raises(DetectError, match="in a format that is not known"):
        detect(template.render)


def test_why_nothing_is_inferred_is_told_where_nothing_is_registered() -> None:
    template = ChatTemplate(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for t in m.tool_calls or [] %}"
        "{{ t.function }}{% endfor %}<|end|>{% endfor %}"
    )
    with pytest.raises(DetectError, match=r"not known \(the calls of this chat template follow no"):
        detect(template.render)
