"""Finds words in messages that change what a template writes elsewhere: switches such as
`/no_think`, or hidden instructions.

Every text that the template compares something with is put into a message. If anything except that
message changes, the text is a trigger.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import nodes

from constrained.errors import TemplateError
from constrained.inspect.doctor.conversations import Message, say
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.wire.format import count_common

_PLACE = "QQQQ"  # a placeholder for the text; no template looks for it
_QUESTION, _RULES = f"What is {_PLACE} about?", f"Be brief, {_PLACE}, please."
_MARKUP = re.compile(r"[<>\[\]{}|｜]")  # of special tokens and tags, which have their own guard
_MIN_LENGTH, _MAX_LENGTH = 3, 100  # characters of a text
_MAX_TEXTS = 80
_EXCERPT = 80


@dataclass(frozen=True)
class Trigger:
    """A text that changes the prompt if a message contains it.

    Args:
        text: the text that the template looks for.
        line: of the template.
        role: of the message.
        written: the changed part of the prompt.
    """

    text: str
    line: int
    role: str
    written: str

    @property
    def is_command(self) -> bool:
        """True if it looks like a command, not like ordinary words of a user."""
        return self.text.startswith("/") and " " not in self.text


def find_triggers(template: ChatTemplate) -> Iterator[Trigger]:
    """Yields the triggers of a template; texts that it refuses do not count."""
    conversations: dict[str, list[Message]] = {
        "user": [say("user", _QUESTION)],
        "system": [say("system", _RULES), say("user", "Hello")],
    }
    for role, messages in conversations.items():
        plain = _render(template, messages, _PLACE)
        if plain is None:
            continue
        for text, line in _list_texts(template.tree).items():
            expected = plain.replace(_PLACE, text)
            found = _render(template, messages, text)
            if found is not None and found != expected:
                offset = count_common(found, expected)
                yield Trigger(text, line, role, found[offset : offset + _EXCERPT])


def _render(template: ChatTemplate, messages: list[Message], text: str) -> str | None:
    put = [{**message, "content": message["content"].replace(_PLACE, text)} for message in messages]
    try:
        return template.render(put)
    except TemplateError:
        return None


def _list_texts(tree: nodes.Template) -> dict[str, int]:
    """Returns the texts in conditions that a message could contain, with the first line of each."""
    found: dict[str, int] = {}
    for condition in tree.find_all((nodes.If, nodes.CondExpr)):
        for constant in condition.test.find_all(nodes.Const):
            text = constant.value
            if not isinstance(text, str) or not _MIN_LENGTH <= len(text) <= _MAX_LENGTH:
                continue
            if text.strip() == text and not _MARKUP.search(text) and len(found) < _MAX_TEXTS:
                found.setdefault(text, constant.lineno)
    return found
