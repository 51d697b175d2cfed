"""Messages that a chat template leaves out are refused, with their place."""

from typing import Any

import pytest

from constrained.errors import TemplateError
from constrained.prompt.messages import normalise
from constrained.prompt.template.arrival import check_arrival
from constrained.prompt.template.chat_template import ChatTemplate

STRICT = (
    "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}\n"
    "{% elif m.role == 'assistant' %}A:{{ m.content }}\n{% endif %}{% endfor %}"
)
OPEN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
ESCAPING = "{% for m in messages %}<{{ m.role }}>{{ m.content | tojson }}\n{% endfor %}"
COUNTING = "{{ messages | length }}" + STRICT


def check(source: str, messages: list[Any]) -> list[int]:
    """Checks a conversation; how many messages each further rendering had."""
    template = ChatTemplate(source)
    rendered: list[int] = []

    def write(messages: list[Any]) -> str:
        rendered.append(len(messages))
        return template.render(messages)

    check_arrival(normalise(messages), template.render(messages), write)
    return rendered


def say(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize("source", [STRICT, COUNTING])
@pytest.mark.parametrize("content", ["Be brief", " Be brief\n", [{"type": "text", "text": "Be"}]])
def test_a_role_that_the_template_does_not_know(content: Any, source: str) -> None:
    with pytest.raises(TemplateError, match="leaves out messages of the role 'critic'") as info:
        check(source, [say("user", "Hi"), say("critic", content), say("user", "Go on")])
    assert info.value.where == "/messages/1/role"


@pytest.mark.parametrize("source", [OPEN, ESCAPING])
def test_a_role_that_the_template_writes_is_checked_once(source: str) -> None:
    critics = [say("critic", 'Say "no"\n or é'), say("user", "Why?"), say("critic", "So.")]
    assert check(source, [say("user", "Hi"), *critics]) == [4]


def test_what_is_known_or_empty_costs_nothing() -> None:
    assert check(STRICT, [say("user", "Hi"), say("assistant", "Ho"), say("critic", "")]) == []


def test_a_text_that_stands_elsewhere_does_not_hide_the_loss() -> None:
    with pytest.raises(TemplateError, match="leaves out"):
        check(STRICT, [say("user", "note"), say("critic", "note")])


def test_many_roles_cost_one_rendering() -> None:
    roles = [say(f"critic {n}", "x") for n in range(50)]
    assert len(check(OPEN, [say("user", "Hi"), *roles])) == 1


PARTING = "{% for m in messages %}{{ m.role }}:{{ m.content.split('</think>')[-1] }}\n{% endfor %}"


@pytest.mark.parametrize("source", [OPEN, ESCAPING, PARTING])
def test_what_a_template_spells_in_another_way_has_arrived(source: str) -> None:
    check(source, [say("user", "Hi é \n"), say("assistant", "Hm.</think>So."), say("user", "\t?")])


@pytest.mark.parametrize("role", ["system", "tool"])
def test_a_message_that_is_left_out_is_named(role: str) -> None:
    messages = [say("user", "Hi"), say(role, "So"), say("user", "Bye")]
    with pytest.raises(
        TemplateError, match=f"leaves out this message of the role '{role}'"
    ) as info:
        check(STRICT, messages)
    assert info.value.where == "/messages/1/content"


def test_a_call_that_is_left_out_is_named() -> None:
    function = {"name": "ping", "arguments": {"times": 2, "host": "example.org"}}
    message = say("assistant", "I look.") | {"tool_calls": [{"function": function}]}
    with pytest.raises(TemplateError, match="leaves out this call") as info:
        check(STRICT, [say("user", "Hi"), message])
    assert info.value.where == "/messages/1/tool_calls/0/function/arguments/host"
