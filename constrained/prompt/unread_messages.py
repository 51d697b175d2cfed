"""Messages that a chat template leaves out without a word."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from constrained.errors import TemplateError

KNOWN_ROLES = frozenset({"system", "user", "assistant", "tool", "function"})
"""Of conversations in the form of `normalise`."""
MAX_OTHER_ROLES = 8
"""In a conversation: each costs a rendering."""
_HINT = 'Use "system", "user", "assistant" or "tool"'


def check_roles_are_read(
    messages: Sequence[Mapping[str, Any]], prompt: str, write: Callable[[list[Any]], str]
) -> None:
    """Refuses a conversation with a message that the template leaves out for its role: most
    templates compare roles with those that they know, and have no "else".

    Args:
        messages: the conversation (see `normalise`).
        prompt: what the template writes of it.
        write: renders another conversation in the same way.

    Raises:
        TemplateError: the prompt is the same without the first message of such a role, or there are
            too many roles.
    """
    checked = set[str]()
    for index, message in enumerate(messages):
        role = message["role"]
        if role in KNOWN_ROLES or role in checked or not message["content"]:
            continue
        checked.add(role)
        where = f"/messages/{index}/role"
        if len(checked) > MAX_OTHER_ROLES:
            raise TemplateError("the messages have too many roles", where=where, hint=_HINT)
        try:
            without = write([*messages[:index], *messages[index + 1 :]])
        except TemplateError:  # it wants that message
            continue
        if without == prompt:
            text = f"the chat template leaves out messages of the role {role!r}"
            raise TemplateError(text, where=where, hint=_HINT)
