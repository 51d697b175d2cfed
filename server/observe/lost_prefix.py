"""Finds why a continued conversation gets a new prompt: the part of the request that has changed.

A prompt is read from the KV cache up to the first token that differs. System messages and tools
come first, so changing a word in them makes the server compute the whole conversation again.
"""

from collections.abc import Sequence

from server.observe.prompt_parts import PromptParts, count_same
from server.observe.related_request import RelatedRequest, Relation, find_dropped
from server.turns.observers import ChangedPart, LostPrefix

AROUND = 40  # characters that are shown of each text


def find_lost_prefix(related: RelatedRequest, later: PromptParts) -> LostPrefix | None:
    """Returns the first part that differs from an earlier request. None if the later one only
    continues it, or starts a new conversation with the same system messages and tools."""
    earlier = related.parts
    if earlier.system != later.system:
        before, after, name = earlier.system, later.system, "the system message"
        return _compare(ChangedPart.SYSTEM, name, before=before, after=after)
    changed = _compare_tools(earlier.tools, later.tools)
    if changed is not None or related.relation is not Relation.CONTINUED:
        return changed
    return _compare_messages(earlier, later)


def _compare_messages(earlier: PromptParts, later: PromptParts) -> LostPrefix | None:
    dropped = find_dropped(earlier, later)
    if dropped is not None:
        name = f"message {dropped.start + 1} ({earlier.roles[dropped.start]})"
        return LostPrefix(ChangedPart.MESSAGES_DROPPED, name)
    # The last message of the earlier request may differ: an edited question.
    for index, (before, after) in enumerate(
        zip(earlier.messages[:-1], later.messages, strict=False)
    ):
        if before != after:
            name = f"message {index + 1} ({later.roles[index]})"
            return _compare(ChangedPart.MESSAGE, name, before=before, after=after)
    return None


def _compare_tools(
    earlier: Sequence[tuple[str, str]], later: Sequence[tuple[str, str]]
) -> LostPrefix | None:
    before, after = dict(earlier), dict(later)
    if len(before) < len(earlier) or len(after) < len(later):  # names are not unique
        return _compare_places(earlier, later)
    for index, (name, _) in enumerate(later):
        if name not in before:
            return LostPrefix(ChangedPart.TOOL_ADDED, _name_tool(index, name))
    for index, (name, _) in enumerate(earlier):
        if name not in after:
            return LostPrefix(ChangedPart.TOOL_REMOVED, _name_tool(index, name))
    for index, (name, text) in enumerate(later):
        if before[name] != text:
            named = _name_tool(index, name)
            return _compare(ChangedPart.TOOL_EDITED, named, before=before[name], after=text)
    for index, (old, new) in enumerate(zip(earlier, later, strict=False)):
        if old[0] != new[0]:
            return LostPrefix(ChangedPart.TOOLS_REORDERED, _name_tool(index, new[0]))
    return None


def _compare_places(
    earlier: Sequence[tuple[str, str]], later: Sequence[tuple[str, str]]
) -> LostPrefix | None:
    """Compares tools by their position only."""
    for index, (old, new) in enumerate(zip(earlier, later, strict=False)):
        if old != new:
            name = _name_tool(index, new[0])
            return _compare(ChangedPart.TOOL_EDITED, name, before=old[1], after=new[1])
    if len(later) > len(earlier):
        index = len(earlier)
        return LostPrefix(ChangedPart.TOOL_ADDED, _name_tool(index, later[index][0]))
    if len(later) < len(earlier):
        index = len(later)
        return LostPrefix(ChangedPart.TOOL_REMOVED, _name_tool(index, earlier[index][0]))
    return None


def _name_tool(index: int, name: str) -> str:
    return f"tool {index + 1} ({name})"


def _compare(part: ChangedPart, name: str, *, before: str, after: str) -> LostPrefix:
    offset = count_same(before, after)
    return LostPrefix(
        part,
        name,
        offset=offset,
        before=before[offset : offset + AROUND],
        after=after[offset : offset + AROUND],
    )
