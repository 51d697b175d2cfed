"""Messages: tools with `defer_loading`, which are not in the prompt.

A client that searches for tools itself returns blocks of type `tool_reference`. Each becomes a text
at its place in the conversation that describes the tool, and the tool may be called from then on.
So the prompt before it stays the same and cached.

Both of Anthropic's own searches (`tool_search_tool_...`) are executed here, as searches by words.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.tools.signature_text import describe_tool
from server.errors import HttpError

SEARCHES = "tool_search_tool"
"""The beginning of the types of Anthropic's own searches."""
MAX_CHARACTERS = 2**24  # of the tools that a request refers to
Json = dict[str, Any]


@dataclass(frozen=True)
class DeferredTools:
    """The tools that a request defers.

    Args:
        names: the names of the tools that are not in the prompt.
        found: the names that the conversation refers to, in order.
        messages: the conversation, with references replaced by texts.
        search: the name of Anthropic's search in the request; None: it has none.
    """

    names: frozenset[str]
    found: tuple[str, ...]
    messages: Sequence[Mapping[str, Any]]
    search: str | None = None


def read_deferred(
    tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> DeferredTools:
    """Reads which tools of a request are deferred, and which of these were found.

    Raises:
        HttpError: all tools are deferred, a reference names no tool, or the described tools are
            longer than any prompt; with its JSON pointer.
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
    if search is not None:  # a search need not find what is referred to already
        deferred -= set(reader.found)
    return DeferredTools(frozenset(deferred), tuple(reader.found), written, search)


class _ReferenceReader:
    """Replaces references by texts.

    Args:
        tools: the tools by name.

    Attributes:
        found: the names in the references, in order.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]):
        self._tools = tools
        self._texts: dict[str, str] = {}  # by the names of tools
        self._length = 0  # characters of all texts
        self.found: dict[str, None] = {}

    def replace(self, message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """Returns the message with the references in its tool results replaced by texts."""
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
        if name not in self._texts:
            tool = self._tools[name]
            described = describe_tool(name, tool.get("description"), tool.get("input_schema") or {})
            self._texts[name] = json.dumps(described, ensure_ascii=False)
        text = self._texts[name]
        self._length += len(text)
        if self._length > MAX_CHARACTERS:
            message = (
                f"the tools that are referred to up to here are described by {self._length:,} "
                f"characters, the limit is {MAX_CHARACTERS:,}: refer to fewer"
            )
            raise HttpError(400, message, "too_large", where=where)
        return {"type": "text", "text": text}
