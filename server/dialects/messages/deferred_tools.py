"""Messages: tools with `defer_loading`, which the prompt does not have.

A client that searches for tools itself answers its search with blocks of type `tool_reference`.
Each of them becomes a text that describes the tool, where it stands in the conversation, and from
then on the tool may be called. So the prompt stays the same in front of it, and cached.

Anthropic's own searches (`tool_search_tool_...`) are carried out here, by words, both of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.tools.signature_text import describe_tool
from server.errors import HttpError

SEARCHES = "tool_search_tool"
"""What the types of Anthropic's own searches begin with."""
Json = dict[str, Any]


@dataclass(frozen=True)
class DeferredTools:
    """The tools that a request defers.

    Args:
        names: of the tools that the prompt does not have.
        found: the names that the conversation refers to, in order.
        messages: the conversation with texts in place of the references.
        search: the name of Anthropic's search that the request has; None: it has none.
    """

    names: frozenset[str]
    found: tuple[str, ...]
    messages: Sequence[Mapping[str, Any]]
    search: str | None = None


def read_deferred(
    tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> DeferredTools:
    """Reads which tools of a request are deferred, and which of them were found.

    Raises:
        HttpError: all tools are deferred, or a reference is to none; says where.
    """
    by_name: dict[str, Mapping[str, Any]] = {}
    deferred: set[str] = set()
    search: str | None = None
    for number, tool in enumerate(tools):
        is_search = str(tool.get("type")).startswith(SEARCHES)
        if is_search and search is None:
            search = tool["name"] if isinstance(tool.get("name"), str) else tool["type"]
        is_deferred = tool.get("defer_loading") or False
        if not isinstance(is_deferred, bool):
            message, where = "defer_loading is not a boolean", f"/tools/{number}/defer_loading"
            raise HttpError(400, message, "invalid_value", where=where)
        name = tool.get("name")
        if isinstance(name, str) and not is_search:
            by_name[name] = tool
            if is_deferred:
                deferred.add(name)
    if search is None and deferred and len(deferred) == len(by_name):
        message = (
            "all tools have defer_loading: leave it out of those that the model sees from the start"
        )
        raise HttpError(400, message, "invalid_value", where="/tools")
    reader = _ReferenceReader(by_name)
    written = [reader.replace(one, f"/messages/{i}") for i, one in enumerate(messages)]
    if search is not None:  # what a reference names is not left to the search
        deferred -= set(reader.found)
    return DeferredTools(frozenset(deferred), tuple(reader.found), written, search)


class _ReferenceReader:
    """Writes texts in place of references.

    Args:
        tools: by name.

    Attributes:
        found: the names that were referred to, in order.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]):
        self._tools = tools
        self.found: dict[str, None] = {}

    def replace(self, message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """The message with texts in place of the references in its tool results."""
        blocks = message.get("content")
        if not isinstance(blocks, list):
            return message
        written: list[Any] = []
        for number, block in enumerate(blocks):
            written.append(self._replace_in_block(block, f"{where}/content/{number}"))
        return {**message, "content": written}

    def _replace_in_block(self, block: Any, where: str) -> Any:
        if not isinstance(block, Mapping) or block.get("type") != "tool_result":
            return block
        parts = block.get("content")
        if not isinstance(parts, list):
            return block
        written: list[Any] = []
        for number, part in enumerate(parts):
            if isinstance(part, Mapping) and part.get("type") == "tool_reference":
                part = {**part, **self._describe(part, f"{where}/content/{number}")}
            written.append(part)
        return {**block, "content": written}

    def _describe(self, reference: Mapping[str, Any], where: str) -> Json:
        name = reference.get("tool_name")
        if not isinstance(name, str) or name not in self._tools:
            message = f"there is no tool {name!r}: refer to one of the tools of the request"
            raise HttpError(400, message, "invalid_value", where=f"{where}/tool_name")
        self.found[name] = None
        tool = self._tools[name]
        described = describe_tool(name, tool.get("description"), tool.get("input_schema") or {})
        return {"type": "text", "text": json.dumps(described, ensure_ascii=False)}
