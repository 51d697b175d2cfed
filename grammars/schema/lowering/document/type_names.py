"""Types under the names that other languages, generators and people use: `str`, `int64`, `date`,
`string?`, `string[]`, `List[str]`, `Optional[int]`, `Map<string, number>`, `Literal['a', 'b']`,
`int or None`, `list of strings`, `str, optional`."""

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import TYPES

_NAMES = {
    "object": "dict map mapping record hash hashmap btreemap dictionary ordereddict defaultdict",
    "array": "list tuple set sequence iterable vec vector frozenset hashset deque arraylist "
    "ienumerable",
    "string": "str text char",
    "integer": "int long short int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 bigint "
    "i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize",
    "number": "float double decimal float32 float64 f32 f64",
    "boolean": "bool",
    "null": "none nonetype nil",
}
_ALIASES = {alias: name for name, aliases in _NAMES.items() for alias in aliases.split()}
"""Types by their names in other languages."""
_FORMATS = {
    "date": "date", "time": "time", "datetime": "date-time", "date-time": "date-time",
    "timedelta": "duration", "duration": "duration", "uuid": "uuid", "guid": "uuid",
    "email": "email",
    "uri": "uri", "url": "uri", "ipv4": "ipv4", "ipv6": "ipv6", "hostname": "hostname",
}  # fmt: skip
"""Names that mean a string in a `format`."""
_ANY = frozenset(["any", "unknown", "mixed"])
_TOKEN = re.compile(
    r"\s*(?:<class '([\w.]+)'>|([A-Za-z_][\w.-]*)|(\[\]|[\[\]<>|,?])"
    r"""|('[^'\\]*'|"[^"\\]*"|-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?(?![\w.])))"""
)
_REMARK = re.compile(r"\s*(?:,\s*optional|\(optional\))\s*\Z", re.IGNORECASE)
"""What docstrings add after a type: the argument may be left out."""
_CONSTANT_SIGNS = tuple("'\"-0123456789")
_BOOLEANS = {"true": True, "false": False}
_MAX_CHARACTERS = 200
_PAIRS = {"[": "]", "<": ">"}

Read: TypeAlias = dict[str, Json]
"""A schema that only says a type."""


def find_type(name: Json) -> Json:
    """Returns the JSON Schema type for a name of another language, or else the name itself."""
    if not isinstance(name, str):
        return name
    lower = name.lower()
    return _ALIASES.get(lower, lower)


def read_type(text: str) -> Read | None:
    """Returns the schema for the name of a type, or an expression of names; None if it cannot be
    parsed, or has two meanings."""
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        return _TypeReader(text).read()
    except _UnreadError:
        return None


class _UnreadError(Exception):
    """The text is not a type expression."""


class _TypeReader:
    """Parses `alternative ("|" alternative)*`; each alternative is a constant, or a name with its
    parameters, `[]` and `?`. A text in quotes may be the name of a class that Python does not know
    yet (`List['Item']`). It is a constant in `Literal[...]`, and among alternatives that are all
    constants or null."""

    def __init__(self, text: str):
        self._tokens = [*_split(_REMARK.sub("", text))]
        self._at = 0

    def read(self) -> Read:
        schema = _refuse_constant(self._read_alternatives((",", "|")))
        if self._at < len(self._tokens):
            raise _UnreadError
        return schema

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _read_alternatives(self, signs: tuple[str, ...] = ("|",)) -> Read:
        found = [self._read_one()]
        while self._peek() in signs:
            self._take()
            found.append(self._read_one())
        return _unite(found)

    def _read_one(self) -> Read:
        schema: Read = self._read_named(self._take())
        if self._peek() == "of" and schema == {"type": "array"}:
            self._take()
            items = _refuse_constant(self._read_one())
            schema = {"type": "array", "items": items}
        while self._peek() in ("[]", "?"):
            schema = _refuse_constant(schema)
            if self._take() == "?":
                schema = _unite([schema, {"type": "null"}])
            else:
                schema = {"type": "array", "items": schema}
        return schema

    def _read_named(self, token: str) -> Read:
        if token.startswith(_CONSTANT_SIGNS):
            is_text = token[0] in "'\""
            return {"const": token[1:-1] if is_text else json.loads(token)}
        name = token.removeprefix("typing.").lower()
        parts: list[Read] = []
        closer = _PAIRS.get(self._peek())
        if closer is not None:
            self._take()
            parts.append(self._read_alternatives())
            while self._peek() == ",":
                self._take()
                parts.append(self._read_alternatives())
            if self._take() != closer:
                raise _UnreadError
        return _apply(name, parts)


def _split(text: str) -> Iterator[str]:
    pointer = 0
    text = text.rstrip()
    while pointer < len(text):
        found = _TOKEN.match(text, pointer)
        if found is None:
            raise _UnreadError
        token = next(group for group in found.groups() if group)
        yield "|" if token.lower() == "or" else token
        pointer = found.end()


def _refuse_constant(schema: Read) -> Read:
    """Returns the schema, unless it is a constant, which in quotes may be the name of a class."""
    if "const" in schema:
        raise _UnreadError
    return schema


def _apply(name: str, parts: list[Read]) -> Read:
    """Returns the type of a name, with the types in its brackets."""
    known = find_type(name)
    if not parts:
        if name in _BOOLEANS:
            return {"const": _BOOLEANS[name]}
        if name in _ANY:
            return {}
        if name in _FORMATS:
            return {"type": "string", "format": _FORMATS[name]}
        if known not in (*TYPES, "integer"):
            known = find_type(name.removesuffix("s"))  # `list of strings`
        if known in (*TYPES, "integer"):
            return {"type": known}
        raise _UnreadError
    if name == "literal":
        return _enumerate(parts)
    parts = [_refuse_constant(part) for part in parts]
    if name == "union":
        return _unite(parts)
    if name in ("optional", "option") and len(parts) == 1:
        return _unite([*parts, {"type": "null"}])
    if known == "array" and name != "tuple" and len(parts) == 1:
        return {"type": "array", "items": parts[0]}
    if known == "object" and len(parts) == 2:
        return {"type": "object", "additionalProperties": parts[1]}
    raise _UnreadError


def _unite(schemas: list[Read]) -> Read:
    """Returns a schema that allows the values of all these, unless a text in quotes is among them
    that may be the name of a class."""
    if len(schemas) == 1:
        return schemas[0]
    if {} in schemas:
        return {}
    constants = [schema["const"] for schema in schemas if "const" in schema]
    if len(constants) > 1 and len(constants) + schemas.count({"type": "null"}) == len(schemas):
        return _enumerate(schemas)
    if any(isinstance(constant, str) for constant in constants):
        raise _UnreadError
    if all(schema.keys() == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        return {"type": list(dict.fromkeys(schema["type"] for schema in schemas))}
    return {"anyOf": schemas}


def _enumerate(schemas: list[Read]) -> Read:
    """Returns a schema that allows these constants, and null."""
    values: list[Json] = []
    for schema in schemas:
        if schema != {"type": "null"} and "const" not in schema:
            raise _UnreadError
        values.append(schema.get("const"))
    return {"enum": values}
