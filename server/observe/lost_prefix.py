"""Why a prompt is new although its conversation is not: the part of the request that has changed.

A prompt is read from the cache up to the first token that differs. System messages and tools stand
at its beginning: whoever changes a word of them has the whole conversation computed again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constrained.messages import SYSTEM_ROLES

AROUND = 40  # characters that are shown of either text

Message = Mapping[str, Any]


class ChangedPart(StrEnum):
    """A part of a request that has changed."""

    SYSTEM = "system"
    TOOL_ADDED = "tool_added"
    TOOL_REMOVED = "tool_removed"
    TOOL_EDITED = "tool_edited"
    TOOLS_REORDERED = "tools_reordered"
    MESSAGE = "message"


@dataclass(frozen=True)
class LostPrefix:
    """The first part of a request that differs from an earlier one of its conversation.

    Args:
        part: what kind of part.
        name: which one, as in "tool 2 (get_weather)".
        offset: the first character that differs, in the text or the JSON of the part.
        before: what stood there.
        after: what stands there now.
    """

    part: ChangedPart
    name: str
    offset: int = 0
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return self.describe()

    def describe(self, *, shows_text: bool = True) -> str:
        """The change in words.

        Args:
            shows_text: with the characters that have changed, which are a part of the prompt.
        """
        match self.part:
            case ChangedPart.TOOL_ADDED:
                return f"{self.name} is new"
            case ChangedPart.TOOL_REMOVED:
                return f"{self.name} is gone"
            case ChangedPart.TOOLS_REORDERED:
                return f"the order of the tools has changed, from {self.name} on"
            case _ if not shows_text:
                return f"{self.name} has changed at character {self.offset}"
            case _:
                change = f"{self.before!r} is {self.after!r} now"
                return f"{self.name} has changed at character {self.offset}: {change}"


@dataclass(frozen=True)
class PromptParts:
    """The parts of a request, in the order in which prompts have them.

    Args:
        system: the system messages in front of the conversation, as one text.
        tools: name and JSON of each tool.
        messages: the JSON of each message behind the system messages.
        roles: of these.
    """

    system: str
    tools: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]
    roles: tuple[str, ...]

    @property
    def size(self) -> int:
        """Characters of all parts."""
        tools = sum(len(text) for _, text in self.tools)
        return len(self.system) + tools + sum(map(len, self.messages))


def read_parts(messages: Sequence[Message], tools: Sequence[Any]) -> PromptParts:
    """The parts of a request.

    Args:
        messages: in OpenAI's form.
        tools: in any form that has a name.
    """
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
        tools=tuple((_read_name(tool), write_json(tool)) for tool in tools),
        messages=tuple(write_json(_without_id(message)) for message in rest),
        roles=tuple(str(message.get("role")) for message in rest),
    )


def write_json(value: Any) -> str:
    """The value as JSON, its keys in their own order: another order is another prompt."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _without_id(message: Message) -> dict[str, Any]:
    """What a message says; ids of calls are in few prompts."""
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


def measure_kinship(earlier: PromptParts, later: PromptParts) -> int:
    """How likely two requests belong to one conversation, or one agent: 0 if nothing says so."""
    same = sum(a == b for a, b in zip(earlier.messages, later.messages, strict=False))
    is_begun_alike = earlier.messages[:1] == later.messages[:1]
    names = {name for name, _ in earlier.tools}
    shared = names & {name for name, _ in later.tools}
    has_tools = bool(names) and len(shared) * 2 >= len(names)
    # Many conversations begin with "Hello".
    if is_begun_alike and (same > 1 or has_tools or _are_alike(earlier.system, later.system)):
        return 2 + same + has_tools
    return int(has_tools)


def _are_alike(earlier: str, later: str) -> bool:
    """True if half of either text is the same from its beginning, or from its end."""
    if not earlier or not later:
        return False
    same = max(_count_same(earlier, later), _count_same(earlier[::-1], later[::-1]))
    return same * 2 >= max(len(earlier), len(later))


def _count_same(earlier: str, later: str) -> int:
    """The characters from the beginning that are the same."""
    count = 0
    for old, new in zip(earlier, later, strict=False):
        if old != new:
            break
        count += 1
    return count


def find_lost_prefix(earlier: PromptParts, later: PromptParts) -> LostPrefix | None:
    """The first part that differs; None if the later request only goes on, or begins anew behind
    the same system messages and tools."""
    if earlier.system != later.system:
        return _compare(ChangedPart.SYSTEM, "the system message", earlier.system, later.system)
    changed = _compare_tools(earlier.tools, later.tools)
    if changed is not None:
        return changed
    # The last message of the earlier request may be another one: a question that was edited.
    for index, (before, after) in enumerate(
        zip(earlier.messages[:-1], later.messages, strict=False)
    ):
        if before != after:
            is_other = index == 0  # another conversation
            if is_other or len(later.messages) <= index + 1:
                return None
            name = f"message {index + 1} ({later.roles[index]})"
            return _compare(ChangedPart.MESSAGE, name, before, after)
    return None


def _compare_tools(
    earlier: Sequence[tuple[str, str]], later: Sequence[tuple[str, str]]
) -> LostPrefix | None:
    before, after = dict(earlier), dict(later)
    if len(before) < len(earlier) or len(after) < len(later):  # names do not tell them apart
        return _compare_places(earlier, later)
    for index, (name, _) in enumerate(later):
        if name not in before:
            return LostPrefix(ChangedPart.TOOL_ADDED, _name_tool(index, name))
    for index, (name, _) in enumerate(earlier):
        if name not in after:
            return LostPrefix(ChangedPart.TOOL_REMOVED, _name_tool(index, name))
    for index, (name, text) in enumerate(later):
        if before[name] != text:
            part = ChangedPart.TOOL_EDITED
            return _compare(part, _name_tool(index, name), before[name], text)
    for index, (old, new) in enumerate(zip(earlier, later, strict=False)):
        if old[0] != new[0]:
            return LostPrefix(ChangedPart.TOOLS_REORDERED, _name_tool(index, new[0]))
    return None


def _compare_places(
    earlier: Sequence[tuple[str, str]], later: Sequence[tuple[str, str]]
) -> LostPrefix | None:
    """Compares tools by their place alone."""
    for index, (old, new) in enumerate(zip(earlier, later, strict=False)):
        if old != new:
            name = _name_tool(index, new[0])
            return _compare(ChangedPart.TOOL_EDITED, name, old[1], new[1])
    if len(later) > len(earlier):
        index = len(earlier)
        return LostPrefix(ChangedPart.TOOL_ADDED, _name_tool(index, later[index][0]))
    if len(later) < len(earlier):
        index = len(later)
        return LostPrefix(ChangedPart.TOOL_REMOVED, _name_tool(index, earlier[index][0]))
    return None


def _name_tool(index: int, name: str) -> str:
    return f"tool {index + 1} ({name})"


def _compare(part: ChangedPart, name: str, before: str, after: str) -> LostPrefix:
    offset = _count_same(before, after)
    return LostPrefix(
        part,
        name,
        offset=offset,
        before=before[offset : offset + AROUND],
        after=after[offset : offset + AROUND],
    )
