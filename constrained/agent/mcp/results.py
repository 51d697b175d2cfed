"""Converts results of MCP servers to text for the model; everything is included or described."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import types

MAX_SEARCHED = 200_000_000
"""The maximum number of characters that are searched for structured values; takes under a
second."""


@dataclass(frozen=True)
class McpMedia:
    """An image, a sound or another file of a result, with the type that the server reports."""

    mime_type: str
    data: bytes


class McpResult:
    """The result of a call. The model reads it as text.

    Args:
        blocks: the contents that the server has sent (`content`).
        structured: the structured value (`structuredContent`); None: there is none.

    Attributes:
        text: the texts, one line for each image and file, and the structured value if the texts do
            not contain it.
        structured: the structured value (`structuredContent`); None: there is none.
        media: images, sounds and files, in order.

    Raises:
        ValueError: the structured value is no JSON: it has NaN or an infinite number.
    """

    def __init__(self, blocks: Sequence[Any], structured: Any = None):
        self.structured = structured
        self.media = tuple(_find_media(blocks))
        parts = [_describe(block) for block in blocks]
        text = "\n".join(part for part in parts if part)
        if structured is not None:
            written = json.dumps(structured, ensure_ascii=False, allow_nan=False)
            if not _says(text, structured):
                text = f"{text}\n{written}".lstrip("\n")
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"McpResult({self.text!r})"


def _describe(block: Any) -> str:
    """Returns a part of a result as text."""
    match block:
        case types.TextContent() | types.TextResourceContents():
            return block.text
        case types.EmbeddedResource():
            return f"[{block.resource.uri}]\n{_describe(block.resource)}"
        case types.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.uri} ({block.name}){about}]"
        case types.ImageContent() | types.AudioContent() | types.BlobResourceContents():
            media = _read_media(block)
            kind = getattr(block, "type", "file")
            return f"[{kind}, {media.mime_type}, {len(media.data):,} bytes: not shown]"
        case _:
            return f"[{type(block).__name__}: not shown]"


def _find_media(blocks: Sequence[Any]) -> Iterator[McpMedia]:
    for block in blocks:
        if isinstance(block, types.EmbeddedResource):
            block = block.resource
        if isinstance(block, types.ImageContent | types.AudioContent | types.BlobResourceContents):
            yield _read_media(block)


def _read_media(block: Any) -> McpMedia:
    encoded = block.blob if isinstance(block, types.BlobResourceContents) else block.data
    try:
        data = base64.b64decode(encoded)
    except (binascii.Error, ValueError):  # servers may send anything
        data = b""
    return McpMedia(block.mime_type or "application/octet-stream", data)


def _says(text: str, value: Any) -> bool:
    """Returns whether a text contains all values of a structured one, since most servers send both.
    Also False if the check would take long; then the model reads some of the text twice."""
    words = set(_list_words(value))
    if len(words) * len(text) > MAX_SEARCHED:
        return False
    return all(any(spelling in text for spelling in spellings) for spellings in words)


def _list_words(value: Any) -> Iterator[tuple[str, ...]]:
    """Yields the spellings of each value in a structured one."""
    match value:
        case {} if not value:
            yield ("{}",)
        case []:
            yield ("[]",)
        case dict():
            for part in value.values():
                yield from _list_words(part)
        case list():
            for part in value:
                yield from _list_words(part)
        case str():
            spelled = [json.dumps(value, ensure_ascii=ascii)[1:-1] for ascii in (True, False)]
            yield (value.strip(), *spelled)
        case _:
            yield (json.dumps(value), str(value))
