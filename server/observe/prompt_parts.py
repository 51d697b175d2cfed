"""The parts of a request, in their order in prompts."""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from constrained.prompt.messages import SYSTEM_ROLES
from constrained.prompt.tools.functions import as_json

Message = Mapping[str, Any]


@dataclass(frozen=True)
class PromptParts:
    """The parts of a request, in their order in prompts.

    Args:
        system: the system messages before the conversation, as one text.
        tools: name and JSON of each tool.
        messages: the JSON of each message after the system messages.
        roles: the roles of these messages.
    """

    system: str
    tools: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]
    roles: tuple[str, ...]

    @property
    def head(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The parts before the conversation."""
        return self.system, self.tools

    @cached_property
    def head_size(self) -> int:
        """The number of characters of the head."""
        return len(self.system) + sum(len(text) for _, text in self.tools)

    @property
    def size(self) -> int:
        """The number of characters of all parts."""
        return self.head_size + sum(map(len, self.messages))


def read_parts(messages: Sequence[Message], tools: Sequence[Any]) -> PromptParts:
    """Splits a request into its parts.

    Args:
        messages: in OpenAI's form.
        tools: in any form, also functions.
    """
    written = list(map(as_json, tools))
    count = 0
    system = list[str]()
    for message in messages:
        if message.get("role") not in SYSTEM_ROLES:
            break
        system.append(_read_text(message.get("content")))
        count += 1
    rest = messages[count:]
    return PromptParts(
        system="\n".join(system),
        tools=tuple((_read_name(tool), _write(tool)) for tool in written),
        messages=tuple(_write(_without_id(message)) for message in rest),
        roles=tuple(str(message.get("role")) for message in rest),
    )


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _without_id(message: Message) -> dict[str, Any]:
    """Returns the message without its ids, which few prompts contain."""
    return {key: value for key, value in message.items() if key not in ("id", "tool_call_id")}


def _read_text(content: Any) -> str:
    if isinstance(content, list):
        texts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _read_name(tool: Any) -> str:
    if not isinstance(tool, Mapping):
        return ""
    inner = tool.get("function", tool)
    return str(inner.get("name", "")) if isinstance(inner, Mapping) else ""


def count_same(earlier: str, later: str) -> int:
    """Returns how many characters are the same, from the first one on."""
    shorter = min(len(earlier), len(later))
    # Compares slices: a loop over the characters of long texts would take milliseconds.
    return bisect_left(range(1, shorter + 1), True, key=lambda n: earlier[:n] != later[:n])
