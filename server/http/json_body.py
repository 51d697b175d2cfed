"""JSON of request bodies: read by the standard library's json, within limits, and in pieces if it
is long (`json_pieces`).

Faster parsers do not fit. pydantic_core and orjson refuse lone surrogates, which clients send when
they cut a text inside an emoji; orjson also rounds integers of more than 64 bits, and pydantic_core
refuses schemas that are nested 200 deep. For a list of small values, all three have about the same
speed and memory use; `json_shape` limits it beforehand. As in all of them, the last of several
members with one name counts.
"""

import json
import re
from typing import Any

from server.errors import HttpError
from server.http.json_pieces import PIECE, NotJsonError, read_in_pieces
from server.http.json_shape import find_excess

MAX_DEPTH = 512
"""The limit for nested objects and lists; half of what Python's stack allows."""
MAX_DIGITS = 4300
"""The limit for digits of an integer; Python reads no more."""
_BOM = b"\xef\xbb\xbf"
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)', re.DOTALL)
_LONG = re.compile(rf'"(?:[^"\\]|\\.)*+"|(-?\d{{{MAX_DIGITS + 1},}})', re.DOTALL)


class _NoNumberError(ValueError):
    """The text has NaN or Infinity."""


def _refuse_constant(name: str) -> Any:
    raise _NoNumberError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json(body: bytes, *, max_values: int, name: str = "the body") -> Any:
    """Reads a JSON text.

    Args:
        body: the text in UTF-8.
        max_values: the limit for values at all depths.
        name: names the text in messages.

    Raises:
        HttpError: it is not JSON, or has too many or too deeply nested values; says at which byte.
    """
    body = body.removeprefix(_BOM)
    if not body.strip():
        raise HttpError(400, f"{name} is empty: send a JSON object", "invalid_json")
    _check_shape(body, max_values, name)

    def read(piece: bytes, offset: int) -> Any:
        return _read_piece(piece, offset, name)

    if len(body) <= PIECE:
        return read(body, 0)
    try:
        return read_in_pieces(body, read)
    except NotJsonError as mistake:
        raise _refuse(name, mistake.reason, mistake.offset) from mistake


def _read_piece(piece: bytes, offset: int, name: str) -> Any:
    """Reads a short JSON text that begins at this byte of the whole text."""
    try:
        text = piece.decode()
    except UnicodeDecodeError as error:
        raise _refuse(name, "it is not UTF-8", offset + error.start) from error
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = "it ends too early" if error.pos >= len(text.rstrip()) else error.msg
        raise _refuse(name, reason, offset + _count_bytes(text, error.pos)) from error
    except _NoNumberError as error:
        message = f"{error} is not a JSON number: write null or leave the field out"
        raise _refuse(name, message, offset + _find(_NO_NUMBER, text)) from error
    except ValueError as error:  # from Python's int
        message = f"an integer has more than {MAX_DIGITS:,} digits"
        raise _refuse(name, message, offset + _find(_LONG, text)) from error


def _check_shape(body: bytes, max_values: int, name: str) -> None:
    excess = find_excess(body, max_values=max_values, max_depth=MAX_DEPTH)
    if excess is None:
        return
    pointer = point(excess.field) if excess.field else ""
    message = f"{name} has more than {max_values:,} values: send less, or raise --max-values"
    if excess.is_depth:
        message = f"{name} is nested more than {MAX_DEPTH} deep"
    raise HttpError(400, f"{message} (at byte {excess.offset})", "too_large", where=pointer)


def point(*steps: object) -> str:
    """Returns the JSON pointer of these steps."""
    escaped = [str(step).replace("~", "~0").replace("/", "~1") for step in steps]
    return "".join(f"/{step}" for step in escaped)


def _refuse(name: str, reason: str, offset: int) -> HttpError:
    return HttpError(400, f"{name} is not JSON: {reason}, at byte {offset}", "invalid_json")


def _count_bytes(text: str, characters: int) -> int:
    return len(text[:characters].encode())


def _find(pattern: "re.Pattern[str]", text: str) -> int:
    """Returns the byte offset of the first match of the pattern's group."""
    for found in pattern.finditer(text):
        if found[1] is not None:
            return _count_bytes(text, found.start(1))
    return 0
