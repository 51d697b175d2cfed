"""Messages: blocks of what only Anthropic's own service does. A conversation that began there goes
on here: what a text model can read of them it reads, and the rest is named.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.tools.execution import format_result
from server.dialects.messages.documents import KINDS, read_document
from server.dialects.messages.signatures import is_signed_here
from server.errors import HttpError

Json = dict[str, Any]
LEFT_OUT: Mapping[str, Sequence[str]] = {
    "redacted_thinking": ("assistant",),
    "container_upload": ("user", "assistant"),
    "mcp_tool_listing": ("assistant",),
    "fallback": ("assistant",),
}
"""Kinds of blocks that have nothing to read, and whose messages may have them."""
COMPACTION = "compaction"
SUMMARY = "Summary of the conversation so far:\n\n"
TOOL_CHANGES = ("tool_addition", "tool_removal")
RESULT = "_tool_result"
"""What the kinds of results end with that stand in the turn of the assistant: a server has carried
the calls out."""
OWN_RESULTS = ("mcp_tool_result", "tool_search_tool_result")
"""Kinds of such results that this server writes, too."""


def is_foreign_result(kind: str) -> bool:
    """True of the result of a tool that only Anthropic runs, such as `web_search_tool_result`."""
    return kind.endswith(RESULT) and kind not in OWN_RESULTS


def refuse_tool_change(kind: str, where: str) -> HttpError:
    """The error of a block that changes the tools in the middle of a conversation."""
    message = f"{kind} is not supported: the tools of the request apply to all of it"
    hint = "leave the block out, and send the tools that the model may call now"
    return HttpError(400, f"{message}; {hint}", "unsupported_content", where=where)


def read_summary(block: Mapping[str, Any]) -> str | None:
    """What stands for all that is in front of a compaction; None: it has failed, and is of no
    effect."""
    summary = block.get("content")
    return SUMMARY + summary if isinstance(summary, str) and summary else None


def find_unread(block: Mapping[str, Any], where: str) -> Sequence[str]:
    """Names what the model does not read of a block: the block itself, or fields of it.

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
        # What this server has thought, it knows itself as long as the conversation is cached.
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
    """The text of a result: JSON, without what is encrypted or is no text.

    Args:
        block: as the client sends it.
        where: the JSON pointer to it.

    Raises:
        HttpError: a document in it is not as the API has it; says where.
    """
    return format_result(_strip(block.get("content"), f"{where}/content", {}))


def _strip(content: Any, where: str, unread: dict[str, None]) -> Any:
    """The content of a result without what no model can read, whose names are added to
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
        if name.startswith("encrypted_") or _is_file(value):
            unread[name] = None
            continue
        kept[name] = _strip(value, f"{where}/{name}", unread)
    return kept


def _is_text(document: Mapping[str, Any]) -> bool:
    return document["type"] == "search_result" or not _is_file(document.get("source"))


def _is_file(source: Any) -> bool:
    """True of the source of a document or an image that is no text."""
    if not isinstance(source, Mapping) or "type" not in source:
        return False
    return source["type"] in ("base64", "url", "file")
