"""JSON of request bodies: measured, then read by the standard library's json.

The parser holds the interpreter lock until it is done, and small values take a hundred times the
memory of their text. So values and depth are limited before it reads; numpy, which counts them,
releases the lock.

Faster parsers do not fit. pydantic_core and orjson refuse lone surrogates, which clients send when
they cut a text inside an emoji; orjson also rounds integers of more than 64 bits, and pydantic_core
refuses schemas that are nested 200 deep. For a list of small values, all three have about the same
speed and memory use. As in all of them, the last of several members with one name counts.
"""

import json
import re
from typing import Any

import numpy as np

from grammars.schema.pointers import point_to
from server.errors import HttpError, refuse

MAX_DEPTH = 512
"""The limit for nested objects and lists; half of what Python's stack allows."""
MAX_DIGITS = 4300  # the limit for digits of an integer; Python reads no more
MAX_SHOWN = 200  # bytes of the name of a member
_OPENS, _CLOSES, _BEGINS = 1, -1, 2
_KINDS = np.zeros(256, np.int8)
_KINDS[list(b"[{")] = _OPENS
_KINDS[list(b"]}")] = _CLOSES
_KINDS[list(b",:")] = _BEGINS
_BOM = b"\xef\xbb\xbf"
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)', re.DOTALL)
_LONG = re.compile(rf'"(?:[^"\\]|\\.)*+"|(-?\d{{{MAX_DIGITS + 1},}})', re.DOTALL)


class _NoNumberError(ValueError):
    """The text has NaN or Infinity."""


def _refuse_constant(name: str) -> Any:
    raise _NoNumberError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json(body: bytes, *, max_values: int) -> Any:
    """Reads the body of a request, in UTF-8, with at most `max_values` values at all depths and
    names of members. An error says at which byte."""
    body = body.removeprefix(_BOM)
    if not body.strip():
        raise refuse("the body is empty: send a JSON object", code="invalid_json")
    _check_shape(body, max_values)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _refuse("it is not UTF-8", error.start) from error
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = "it ends too early" if error.pos >= len(text.rstrip()) else error.msg
        raise _refuse(reason, _count_bytes(text, error.pos)) from error
    except _NoNumberError as error:
        message = f"{error} is not a JSON number: write null or leave the field out"
        raise _refuse(message, _find(_NO_NUMBER, text)) from error
    except ValueError as error:  # from Python's int
        message = f"an integer has more than {MAX_DIGITS:,} digits"
        raise _refuse(message, _find(_LONG, text)) from error


def count_values(text: bytes) -> int:
    """Returns how many values and names of members a JSON text has, at most one too many for each
    empty list or object."""
    _, codes = _find_marks(text)
    return 1 + int(np.count_nonzero(_KINDS[codes] != _CLOSES))


def _find_marks(text: bytes) -> "tuple[np.ndarray, np.ndarray]":
    codes = np.frombuffer(text.replace(rb"\\", b"__").replace(rb"\"", b"__"), np.uint8)
    # 8-bit sums overflow, but their parity stays right.
    is_outside = np.cumsum(codes == ord('"'), dtype=np.uint8) % 2 == 0
    offsets = np.flatnonzero(is_outside & (_KINDS[codes] != 0))
    return offsets, codes[offsets]


def _check_shape(body: bytes, max_values: int) -> None:
    """Refuses too many or too deeply nested values. A text that is not JSON is measured like JSON,
    also after the mistake."""
    opened = body.count(b"[") + body.count(b"{")  # also counts those in strings
    if opened <= MAX_DEPTH and opened + body.count(b",") + body.count(b":") < max_values:
        return
    offsets, codes = _find_marks(body)
    kinds = _KINDS[codes]
    # A value or a name is after each comma and colon and in each list and object, if not empty.
    values = 1 + np.cumsum(kinds != _CLOSES, dtype=np.int32)
    depths = np.cumsum(np.where(kinds == _BEGINS, 0, kinds), dtype=np.int32)
    for is_over, message in (
        (depths > MAX_DEPTH, f"is nested more than {MAX_DEPTH} deep"),
        (
            values > max_values,
            f"has more than {max_values:,} values and names: send less, or raise --max-values",
        ),
    ):
        if is_over.any():
            first = int(is_over.argmax())
            message = f"the body {message} (at byte {offsets[first]})"
            colons = np.flatnonzero((codes == ord(":")) & (depths == 1))
            where = _find_member(body, offsets, colons[colons < first])
            raise refuse(message, where, "too_large")


def _find_member(body: bytes, offsets: "np.ndarray", colons: "np.ndarray") -> str:
    """Returns the pointer of the last member of the outermost object; "": there is none, or its
    name is long."""
    if not colons.size:
        return ""
    begin, end = offsets[colons[-1] - 1 : colons[-1] + 1]
    try:
        name = json.loads(body[begin + 1 : min(end, begin + MAX_SHOWN)])
    except ValueError:
        return ""
    return point_to([name])


def _refuse(reason: str, offset: int) -> HttpError:
    return refuse(f"the body is not JSON: {reason}, at byte {offset}", code="invalid_json")


def _count_bytes(text: str, characters: int) -> int:
    return len(text[:characters].encode())


def _find(pattern: "re.Pattern[str]", text: str) -> int:
    for found in pattern.finditer(text):
        if found[1] is not None:
            return _count_bytes(text, found.start(1))
    return 0
