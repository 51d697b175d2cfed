"""Messages that a chat template leaves out are refused, with their place."""

from typing import Any

import pytest

from constrained.errors import TemplateError
from constrained.messages import normalise
from constrained.prompt.unread_messages import MAX_OTHER_ROLES, check_roles_are_read
from constrained.template.chat_template import ChatTemplate

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

    check_roles_are_read(normalise(messages), template.render(messages), write)
    return rendered


def say(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize("content", ["Be brief", " Be brief\n", [{"type": "text", "text": "Be"}]])
def test_a_role_that_the_template_does_not_know(content: Any) -> None:
    with pytest.raises(TemplateError, match="leaves out messages of the role 'critic'") as info:
        check(STRICT, [say("user", "Hi"), say("critic", content), say("user", "Go on")])
    assert info.value.where == "/messages/1/role"


@pytest.mark.parametrize("source", [OPEN, ESCAPING, COUNTING])
def test_a_role_that_the_template_writes_is_checked_once(source: str) -> None:
    critics = [say("critic", 'Say "no"\n or é'), say("user", "Why?"), say("critic", "So.")]
    assert check(source, [say("user", "Hi"), *critics]) == [3]


def test_what_is_known_or_empty_costs_nothing() -> None:
    assert check(STRICT, [say("user", "Hi"), say("assistant", "Ho"), say("critic", "")]) == []


def test_a_text_that_stands_elsewhere_does_not_hide_the_loss() -> None:
    with pytest.raises(TemplateError, match="leaves out"):
        check(STRICT, [say("user", "note"), say("critic", "note")])


def test_many_roles_cost_few_renderings() -> None:
    roles = [say(f"critic {n}", "x") for n in range(MAX_OTHER_ROLES)]
    assert len(check(OPEN, [say("user", "Hi"), *roles])) == MAX_OTHER_ROLES
    with pytest.raises(TemplateError, match="too many roles") as info:
        check(OPEN, [say("user", "Hi"), *roles, say("another", "x")])
    assert info.value.where == f"/messages/{1 + MAX_OTHER_ROLES}/role"
