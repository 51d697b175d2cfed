"""Prompts, byte for byte those of transformers: real templates, on many conversations.

Needs the extra `compare`; skipped without it.
"""

import copy
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

import constrained.prompt.template.chat_template
from constrained.errors import TemplateError
from constrained.prompt.template.chat_template import ChatTemplate
from tests.real_templates import real_templates

pytest.importorskip("transformers", reason="needs the extra `compare`")
pytestmark = pytest.mark.filterwarnings("ignore")  # what transformers warns of is its own

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Forecast: <b>é</b> & \"q\" 'x'",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where"},
                "days": {"type": "integer", "description": "How many"},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"},
            },
            "required": ["city"],
        },
    },
}
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Wetter in Zürich? <b> & \\ 'x' \"q\""}
ANSWER = {"role": "assistant", "content": "It is sunny."}
SWITCHES: tuple[dict[str, Any], ...] = (
    {},
    {"enable_thinking": True, "thinking": True},
    {"enable_thinking": False, "thinking": False},
)
NOW = datetime(2026, 2, 3, 4, 5, 6)

Render = Callable[..., str]


def calls(content: str | None, *arguments: dict[str, Any], **fields: Any) -> dict[str, Any]:
    listed = [
        {
            "id": f"abcdefgh{number}",
            "type": "function",
            "function": {"name": "get_weather", "arguments": given},
        }
        for number, given in enumerate(arguments)
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed, **fields}


def result(number: int) -> dict[str, Any]:
    fields = {"tool_call_id": f"abcdefgh{number}", "name": "get_weather"}
    return {"role": "tool", "content": "Sunny. <b>", **fields}


PARIS, ROME = {"city": "Pa'ris <é>", "days": 3}, {"city": "Rome", "tags": ["a", "b"]}
THOUGHT = {"reasoning_content": "I think."}
# Without calls, or with text before them.
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "a question": [USER],
    "a system message": [SYSTEM, USER],
    "several turns": [SYSTEM, USER, ANSWER, USER],
    "the answer last": [USER, ANSWER],
    "a call": [SYSTEM, USER, calls("I look.", PARIS)],
    "a result": [USER, calls("I look.", PARIS), result(0)],
    "two calls": [SYSTEM, USER, calls("I look.", PARIS, ROME), result(0), result(1)],
    "after calls": [USER, calls("I look.", PARIS), result(0), ANSWER, USER],
    "a thought": [USER, ANSWER | THOUGHT],
    "an old thought": [SYSTEM, USER, ANSWER | THOUGHT, USER],
    "a thought under another name": [USER, ANSWER | {"thinking": "I think."}],
    "a thought and a call": [USER, calls("I look.", PARIS, **THOUGHT), result(0)],
}
# OpenAI's clients give None as content beside calls, others "". Templates want the one or the
# other, and are given what they want.
ONLY_CALLS: dict[str, Callable[[str | None], list[dict[str, Any]]]] = {
    "only a call": lambda empty: [SYSTEM, USER, calls(empty, PARIS)],
    "only two calls": lambda empty: [USER, calls(empty, PARIS, ROME), result(0), result(1)],
    "a thought and only a call": lambda empty: [USER, calls(empty, PARIS, **THOUGHT), result(0)],
}


class _Clock(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> "_Clock":
        return cls(*NOW.timetuple()[:6], tzinfo=tz)


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch) -> Render:
    """What transformers makes of a template; time stands still for both sides."""
    from transformers.utils import chat_template_utils

    monkeypatch.setattr(chat_template_utils, "datetime", _Clock)
    monkeypatch.setattr(constrained.prompt.template.chat_template, "datetime", _Clock)

    def with_transformers(template: ChatTemplate, messages: Any, tools: Any, **kwargs: Any) -> str:
        prompts, _ = chat_template_utils.render_jinja_template(
            [messages], tools=tools, chat_template=template.source, **template.tokens, **kwargs
        )
        return prompts[0]

    return with_transformers


def forms() -> Iterator[tuple[Any, dict[str, Any]]]:
    for tools in (None, [TOOL]):
        for opened in (True, False):
            for switch in SWITCHES:
                yield tools, {"add_generation_prompt": opened, **switch}


def with_text(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages, the arguments of calls as JSON text."""
    messages = copy.deepcopy(messages)
    for call in (call for message in messages for call in message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False)
    return messages


def rendered_or_none(render: Render, *arguments: Any, **kwargs: Any) -> str | None:
    try:
        return render(*arguments, **kwargs)
    except Exception:  # of any kind: what a template raises goes through transformers as it is
        return None


def written_or_none(template: ChatTemplate, messages: Any, tools: Any, kwargs: Any) -> str | None:
    try:
        return template.render(messages, tools, **kwargs)
    except TemplateError:
        return None


@pytest.mark.parametrize("case", CONVERSATIONS)
def test_prompts_are_those_of_transformers(render: Render, case: str) -> None:
    compared = 0
    for name, template in real_templates().items():
        for tools, kwargs in forms():
            theirs = rendered_or_none(render, template, CONVERSATIONS[case], tools, **kwargs)
            if theirs is not None:
                ours = written_or_none(template, CONVERSATIONS[case], tools, kwargs)
                assert ours == theirs, (name, bool(tools), kwargs)
                compared += 1
    assert compared > 8 * len(real_templates())


@pytest.mark.parametrize("case", ONLY_CALLS)
def test_prompts_with_empty_content_are_those_of_transformers(render: Render, case: str) -> None:
    compared = 0
    for name, template in real_templates().items():
        for tools, kwargs in forms():
            given = [ONLY_CALLS[case](empty) for empty in (None, "")]
            ours = {written_or_none(template, g, tools, kwargs) for g in given}
            assert len(ours) == 1, name  # None and "" are the same to us
            theirs = {rendered_or_none(render, template, g, tools, **kwargs) for g in given}
            if None in theirs:  # R1-Distill wants None, and arguments as text
                texts = [with_text(messages) for messages in given]
                theirs |= {rendered_or_none(render, template, g, tools, **kwargs) for g in texts}
            if theirs != {None}:
                assert ours <= theirs - {None}, (name, bool(tools), kwargs)
                compared += 1
    assert compared > 8 * len(real_templates())
