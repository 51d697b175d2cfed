"""Checks of all dialects before compilation: content is text, schemas are not too large, what is
only returned is short and UTF-8."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from constrained.prompt.messages import TEXT_PARTS, is_left_out, note_left_out
from grammars.errors import Error
from server.errors import refuse
from server.settings import Settings

UNREADABLE = "cannot be read by this server: it serves text models. Leave it out, or describe it"


def read_text_parts(content: Any, where: str) -> Any:
    """Converts content to OpenAI's form with all parts as `{"type": "text", "text": ...}`."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        message = "content is an object: write it as JSON text, or a part as a list with one part"
        raise refuse(message, where)
    if not isinstance(content, list):
        raise refuse("content must be a text or a list of parts", where)
    parts = [_read_part(part, f"{where}/{i}") for i, part in enumerate(content)]
    return parts or ""


def read_noted_parts(content: Any, where: str) -> Any:
    """Converts content as `read_text_parts` does, with a note in the place of each part that is not
    text; for results, and where else `constrained.prompt.messages.find_noted` says so."""
    return read_text_parts(note_left_out(content), where)


def find_left_out(content: Any, where: str) -> list[str]:
    """Lists the parts of content that `read_noted_parts` leaves out, each with its type."""
    places: list[str] = []
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if is_left_out(part):
            places.append(f"{where}/{number} ({part['type']})")
    return places


def list_texts(content: str | Sequence[Mapping[str, str]]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content]


def _read_part(part: Any, where: str) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in TEXT_PARTS:
        raise refuse(f"a part of type {kind!r} {UNREADABLE}", where, "unsupported_content")
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str):
        raise refuse("the part has no text", f"{where}/text")
    return {"type": "text", "text": text}


@contextmanager
def renaming_place(known: str, given: str) -> Iterator[None]:
    """Makes errors that are raised inside point into the client's own request: at `given` instead
    of `known`, the pointer that the library uses."""
    try:
        yield
    except Error as error:
        error.where = (error.where or "").replace(known, given, 1)
        raise


def check_size(schema: Any, settings: Settings, where: str) -> None:
    """Refuses a schema, or another constraint of an answer, that is too large."""
    size = measure(schema, where)
    if size > settings.max_schema:
        message = f"it has {size:,} bytes, the limit is {settings.max_schema:,}"
        raise refuse(f"{message}: raise --max-schema", where, "too_large")


def check_template_kwargs(kwargs: Mapping[str, Any], settings: Settings) -> None:
    where = "/chat_template_kwargs"
    size, limit = measure(kwargs, where), settings.max_template_kwargs
    if size > limit:
        message = f"it has {size:,} bytes, the limit is {limit:,}: raise --max-template-kwargs"
        raise refuse(message, where, "too_large")


def check_echoed(fields: Mapping[str, Any], settings: Settings) -> None:
    """Refuses values that the reply only repeats, if they are too long or cannot be written in
    UTF-8."""
    for name, value in fields.items():
        size = 0 if value is None else measure(value, f"/{name}")
        if size > settings.max_echoed:
            message = f"it has {size:,} bytes as JSON, the limit is {settings.max_echoed:,}"
            hint = "it is only returned unchanged: send less, or raise --max-echoed"
            raise refuse(f"{message}, and {hint}", f"/{name}", "too_large")
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            message = "it has a lone surrogate, which is not valid in text. Replace it"
            raise refuse(message, f"/{name}") from error


def measure(value: Any, where: str) -> int:
    try:
        return len(json.dumps(value, default=str))
    except RecursionError as error:
        raise refuse("it nests too deeply", where, "too_large") from error
