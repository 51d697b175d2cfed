"""Messages: documents and search results, converted to text for the model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from constrained.prompt.messages import is_left_out
from grammars.schema.json_values import JsonObject
from server.errors import refuse
from server.turns.request_checks import (
    UNREADABLE,
    find_left_out,
    list_texts,
    read_noted_parts,
    read_text_parts,
)

ReadParts = Callable[[Any, str], Any]
KINDS = ("document", "search_result")


def read_result(content: Any, where: str) -> Any:
    """Reads the content of a tool's result: its documents as `read_documents` does, and with notes
    in the places of pictures and files."""
    return read_noted_parts(read_documents(content, where, read_noted_parts), where)


def find_left_out_of_result(content: Any, where: str) -> list[str]:
    """Lists the parts of a result that `read_result` leaves out, each with its type."""
    places: list[str] = []
    for number, part in enumerate(content if isinstance(content, list) else ()):
        source = part.get("source") if isinstance(part, Mapping) else None
        if is_left_out(part) and (part["type"] not in KINDS or is_file(source)):
            places.append(f"{where}/{number} ({part['type']})")
        elif isinstance(source, Mapping):
            places += find_left_out(source.get("content"), f"{where}/{number}/source/content")
    return places


def read_documents(content: Any, where: str, read_parts: ReadParts = read_text_parts) -> Any:
    """Replaces documents and search results by blocks of text. Their titles, sources and contexts
    come before their texts. Anything but a list of blocks stays as it is, and so do files.
    `read_parts` reads the parts of a document."""
    if not isinstance(content, list):
        return content
    read: list[Any] = []
    for number, block in enumerate(content):
        is_document = isinstance(block, Mapping) and block.get("type") in KINDS
        if is_document and not is_file(block.get("source")):
            block = read_document(block, f"{where}/{number}", read_parts)
        read.append(block)
    return read


def is_file(source: Any) -> bool:
    if not isinstance(source, Mapping) or "type" not in source:
        return False
    return source["type"] in ("base64", "url", "file")


def read_document(
    block: Mapping[str, Any], where: str, read_parts: ReadParts = read_text_parts
) -> JsonObject:
    """Converts a document, or a search result, to a block of text; refuses a file."""
    lines: list[str] = []
    # In the order of the API's reference: title, source, context.
    names = ("title", "context") if block["type"] == "document" else ("title", "source")
    for name in names:
        said = block.get(name)
        if said is None:
            continue
        if not isinstance(said, str):
            raise refuse(f"{name} must be a text", f"{where}/{name}")
        lines.append(f"{name.capitalize()}: {said}")
    lines += _read_texts(block, where, read_parts)
    written: JsonObject = {"type": "text", "text": "\n".join(lines) + "\n\n"}
    if "cache_control" in block:
        written["cache_control"] = block["cache_control"]
    return written


def _read_texts(block: Mapping[str, Any], where: str, read_parts: ReadParts) -> Sequence[str]:
    if block["type"] == "search_result":
        return _list_texts(block.get("content"), f"{where}/content", read_parts)
    match block.get("source"):
        case {"type": "text", "data": str(text)}:
            return [text]
        case {"type": "content", "content": content}:
            return _list_texts(content, f"{where}/source/content", read_parts)
        case _:
            message = f"a block of type 'document' that is not text {UNREADABLE}"
            raise refuse(message, where, "unsupported_content")


def _list_texts(content: Any, where: str, read_parts: ReadParts) -> Sequence[str]:
    if content is None:
        raise refuse("there is no content", where)
    return list_texts(read_parts(content, where))


def has_citations(messages: Sequence[Any]) -> bool:
    """Returns whether a conversation has a document to be cited, or a text with citations. No model
    here writes or reads citations."""
    return any(map(_is_cited, messages))


def _is_cited(block: Any) -> bool:
    match block:
        case {"type": "document" | "search_result", "citations": {"enabled": True}}:
            return True
        case {"type": "text", "citations": [_, *_]}:
            return True
        case {"content": list(parts)}:
            return any(map(_is_cited, parts))
        case _:
            return False
