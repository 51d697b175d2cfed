"""Messages: documents and search results, converted to text for the model."""

from collections.abc import Mapping, Sequence
from typing import Any

from server.errors import HttpError
from server.turns.request_checks import UNREADABLE, list_texts, read_text_parts

Json = dict[str, Any]
KINDS = ("document", "search_result")


def read_documents(content: Any, where: str) -> Any:
    """Replaces documents and search results by blocks of text. Their titles, sources and contexts
    come before their texts.

    Args:
        content: as the client sends it; anything but a list of blocks stays as it is.
        where: the JSON pointer to it.

    Raises:
        HttpError: a document is a file, or is invalid; with its JSON pointer.
    """
    if not isinstance(content, list):
        return content
    read: list[Any] = []
    for number, block in enumerate(content):
        if isinstance(block, Mapping) and block.get("type") in KINDS:
            block = read_document(block, f"{where}/{number}")
        read.append(block)
    return read


def read_document(block: Mapping[str, Any], where: str) -> Json:
    """Converts a document, or a search result, to a block of text.

    Args:
        block: as the client sends it.
        where: the JSON pointer to it.

    Raises:
        HttpError: it is a file, or is invalid; with its JSON pointer.
    """
    lines: list[str] = []
    # In the order of the API's reference: title, source, context.
    names = ("title", "context") if block["type"] == "document" else ("title", "source")
    for name in names:
        said = block.get(name)
        if said is None:
            continue
        if not isinstance(said, str):
            raise HttpError(400, f"{name} must be a text", "invalid_value", where=f"{where}/{name}")
        lines.append(f"{name.capitalize()}: {said}")
    lines += _read_texts(block, where)
    written: Json = {"type": "text", "text": "\n".join(lines) + "\n\n"}
    if "cache_control" in block:
        written["cache_control"] = block["cache_control"]
    return written


def _read_texts(block: Mapping[str, Any], where: str) -> Sequence[str]:
    """Returns the texts in a document or a search result."""
    if block["type"] == "search_result":
        return _list_texts(block.get("content"), f"{where}/content")
    match block.get("source"):
        case {"type": "text", "data": str(text)}:
            return [text]
        case {"type": "content", "content": content}:
            return _list_texts(content, f"{where}/source/content")
        case _:
            message = f"a block of type 'document' that is not text {UNREADABLE}"
            raise HttpError(400, message, "unsupported_content", where=where)


def _list_texts(content: Any, where: str) -> Sequence[str]:
    if content is None:
        raise HttpError(400, "there is no content", "invalid_value", where=where)
    return list_texts(read_text_parts(content, where))


def has_citations(messages: Sequence[Any]) -> bool:
    """Returns whether a conversation has a document to be cited, or a text with citations. No model
    here writes or reads citations."""
    return any(map(_is_cited, messages))


def _is_cited(block: Any) -> bool:
    """Returns True for a document or a text with citations, and for a message or a result that
    contains one."""
    match block:
        case {"type": "document" | "search_result", "citations": {"enabled": True}}:
            return True
        case {"type": "text", "citations": [_, *_]}:
            return True
        case {"content": list(parts)}:
            return any(map(_is_cited, parts))
        case _:
            return False
