"""Messages: blocks that only Anthropic's own service creates. A conversation that began there can
continue here: the model reads their text, and other content is reported as unread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.tools.execution import format_result
from server.dialects.messages.documents import KINDS, is_file, read_document
from server.dialects.messages.signatures import is_signed_here
from server.errors import HttpError

Json = dict[str, Any]
LEFT_OUT: Mapping[str, Sequence[str]] = {
    "redacted_thinking": ("assistant",),
    "container_upload": ("user", "assistant"),
    "mcp_tool_listing": ("assistant",),
    "fallback": ("assistant",),
}
"""Types of blocks without text that messages may contain."""
COMPACTION = "compaction"
SUMMARY = "Summary of the conversation so far:\n\n"
TOOL_CHANGES = ("tool_addition", "tool_removal")
RESULT = "_tool_result"
"""The ending of the types of results in an assistant's turn: a server has executed the calls."""
OWN_RESULTS = ("mcp_tool_result", "tool_search_tool_result")
"""Types of such results that this server also writes."""


def is_foreign_result(kind: str) -> bool:
    """Returns True for the result of a tool that only Anthropic runs, such as
    `web_search_tool_result`."""
    return kind.endswith(RESULT) and kind not in OWN_RESULTS


def refuse_tool_change(kind: str, where: str) -> HttpError:
    """Returns the error for a block that changes the tools in the middle of a conversation."""
    message = f"{kind} is not supported: the tools of the request apply to all of it"
    hint = "leave the block out, and send the tools that the model may call now"
    return HttpError(400, f"{message}; {hint}", "unsupported_content", where=where)


def read_summary(block: Mapping[str, Any]) -> str | None:
    """Returns the text that replaces everything before a compaction; None: the compaction has
    failed and has no effect."""
    summary = block.get("content")
    return SUMMARY + summary if isinstance(summary, str) and summary else None


def find_unread(block: Mapping[str, Any], where: str) -> Sequence[str]:
    """Names what the model does not read: the block itself, or some of its fields.

    Args:
        block: as the client sends it.
        where: the JSON pointer to it.

    Raises:
        HttpError: a document in it is not as the API has it; says where.
    """
    kind = str(block.get("type"))
    if kind in LEFT_OUT or (kind == COMPACTION and read_summary(block) is None):
        return (kind,)
    if kind == "thinking" and not block.get("thinking"):
        # Thinking of this server's own models is in its cache, as long as the conversation is.
        return () if is_signed_here(block.get("signature")) else (kind,)
    unread: dict[str, None] = {}
    if kind == COMPACTION:
        for name in ("encrypted_content", "tool_changes"):
            if block.get(name):
                unread[name] = None
    elif is_foreign_result(kind):
        _strip(block.get("content"), f"{where}/content", unread)
    return tuple(unread)


def read_foreign_result(block: Mapping[str, Any], where: str) -> str:
    """Returns the text of a result: JSON, without encrypted data and data other than text.

    Args:
        block: as the client sends it.
        where: the JSON pointer to it.

    Raises:
        HttpError: a document in it is not as the API has it; says where.
    """
    return format_result(_strip(block.get("content"), f"{where}/content", {}))


def _strip(content: Any, where: str, unread: dict[str, None]) -> Any:
    """Returns the content of a result without the parts that no model can read; adds their names to
    `unread`."""
    if isinstance(content, list):
        parts: list[Any] = []
        for number, part in enumerate(content):
            parts.append(_strip(part, f"{where}/{number}", unread))
        return parts
    if not isinstance(content, Mapping):
        return content
    if content.get("type") in KINDS and _is_text(content):
        return read_document(content, where)["text"].rstrip()
    kept: Json = {}
    for name, value in content.items():
        if value is None or name == "type":
            continue
        if name.startswith("encrypted_") or is_file(value):
            unread[name] = None
            continue
        kept[name] = _strip(value, f"{where}/{name}", unread)
    return kept


def _is_text(document: Mapping[str, Any]) -> bool:
    return document["type"] == "search_result" or not is_file(document.get("source"))
