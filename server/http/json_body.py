"""JSON of request bodies: read by the standard library's json, within limits, in pieces where it is
long (`json_pieces`).

Faster readers were tried. pydantic_core and orjson refuse lone surrogates, which clients send that
cut a text in the middle of an emoji; orjson also rounds integers of more than 64 bits, and
pydantic_core refuses schemas that are nested 200 deep. Each of the three reads a list of small
values at about the same speed and with the same memory; that is bounded beforehand (`json_shape`).
As with all of them, of several members of one name the last one counts.
"""

import json
import re
from typing import Any

from server.errors import HttpError
from server.http.json_pieces import PIECE, NotJsonError, read_in_pieces
from server.http.json_shape import find_excess

MAX_DEPTH = 512
"""Objects and lists in each other; half of what Python's own stack holds."""
MAX_DIGITS = 4300
"""Of an integer: Python reads no longer ones."""
_BOM = b"\xef\xbb\xbf"
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)', re.DOTALL)
_LONG = re.compile(rf'"(?:[^"\\]|\\.)*+"|(-?\d{{{MAX_DIGITS + 1},}})', re.DOTALL)


class _NoNumberError(ValueError):
    """There is a NaN or an Infinity."""


def _refuse_constant(name: str) -> Any:
    raise _NoNumberError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json(body: bytes, *, max_values: int, name: str = "the body") -> Any:
    """The value of a JSON text.

    Args:
        body: in UTF-8.
        max_values: in it, at all depths.
        name: what the text is, for messages.

    Raises:
        HttpError: it is no JSON, or has more values, or deeper ones; says at which byte.
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
    """The value of a JSON text that is short, and begins at this byte of the whole."""
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
        place = offset + _find(_NO_NUMBER, text)
        message = f"{error} is not a JSON number: write null or leave the field out"
        raise _refuse(name, message, place) from error
    except ValueError as error:  # of Python's int
        message = f"an integer has more than {MAX_DIGITS:,} digits"
        raise _refuse(name, message, offset + _find(_LONG, text)) from error


def _check_shape(body: bytes, max_values: int, name: str) -> None:
    excess = find_excess(body, max_values=max_values, max_depth=MAX_DEPTH)
    if excess is None:
        return
    where = point(excess.field) if excess.field else ""
    message = f"{name} has more than {max_values:,} values: send less, or raise --max-values"
    if excess.is_depth:
        message = f"{name} is nested more than {MAX_DEPTH} deep"
    raise HttpError(400, f"{message} (at byte {excess.offset})", "too_large", where=where)


def point(*steps: object) -> str:
    """The JSON pointer of these steps."""
    escaped = [str(step).replace("~", "~0").replace("/", "~1") for step in steps]
    return "".join(f"/{step}" for step in escaped)


def _refuse(name: str, reason: str, offset: int) -> HttpError:
    return HttpError(400, f"{name} is not JSON: {reason}, at byte {offset}", "invalid_json")


def _count_bytes(text: str, characters: int) -> int:
    return len(text[:characters].encode())


def _find(pattern: "re.Pattern[str]", text: str) -> int:
    """The byte of the first match of the pattern's group."""
    for found in pattern.finditer(text):
        if found[1] is not None:
            return _count_bytes(text, found.start(1))
    return 0
