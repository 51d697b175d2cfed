"""A wire format as JSON text, and back: to look at, to compare, to keep and to change.

Both directions follow the dataclasses of the format algebra. The object of a node has the name of
its class as `node`, and its fields; those that have their default are left out.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from grammars.errors import FormatError
from grammars.schema.pointers import escape
from grammars.schema.subschemas import is_list, is_object
from grammars.wire.format import CallId, Format, Hole

_SCALARS = {str: "a text", int: "an integer", bool: "true or false", NoneType: "null"}


def dump_format(format: Format) -> str:
    """Returns the text of a format: a field a line, lists of nodes a node a line."""
    lines = [f"  {_write(key)}: {_write_field(value)}" for key, value in _dump(format).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_field(value: Any) -> str:
    if not is_list(value) or not any(isinstance(item, dict) for item in value):
        return _write(value)
    items = [f"    {_write(item)}" for item in value]
    return "[\n" + ",\n".join(items) + "\n  ]"


def _dump(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_dump(item) for item in cast(tuple[Any, ...], value)]
    if not is_dataclass(value):
        return value
    written: dict[str, Any] = {"node": type(value).__name__}
    for field in fields(value):
        item = getattr(value, field.name)
        if item != _find_default(field):
            written[field.name] = _dump(item)
    return written


def _find_default(field: Field[Any]) -> Any:
    """Returns the default of a field; MISSING if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def load_format(text: str) -> Format:
    """Returns the format that the text describes. Raises FormatError if it is not JSON, or
    describes no format."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", where="") from error
    format: Format = _load(value, Format, "")
    if not any(isinstance(node, Hole) for node in format.call):
        hint = f"Add one of: {', '.join(kind.__name__ for kind in get_args(Hole))}"
        raise FormatError("a call has no place for arguments", where="/call", hint=hint)
    return format


def _load(value: Any, kind: Any, where: str) -> Any:
    """Returns the value that a JSON value stands for; `kind` is its type, as the annotation of a
    field has it: a scalar, a class of the algebra, a tuple, or a union of scalars and classes."""
    if get_origin(kind) is tuple:
        return _load_items(value, get_args(kind), where)
    if _is_choice(kind):
        words = [word.value for word in kind]
        if value not in words:
            raise FormatError(f"{value!r} is not {' or '.join(words)}", where=where)
        return kind(value)
    kinds: Sequence[type[Any]] = [kind]
    if get_origin(kind) in (UnionType, Union):
        kinds = get_args(kind)
    classes: list[type[Any]] = [kind for kind in kinds if kind not in _SCALARS]
    if classes and is_object(value):
        return _load_node(value, classes, where)
    if type(value) in kinds:
        return value
    expected = " or ".join(_SCALARS.get(kind) or kind.__name__ for kind in kinds)
    if classes and len(kinds) == 1:
        expected = f"an object: {expected}"
    raise FormatError(f"{value!r} is not {expected}", where=where)


def _is_choice(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _load_items(value: Any, kinds: Sequence[Any], where: str) -> tuple[Any, ...]:
    if not is_list(value):
        raise FormatError(f"{value!r} is not a list", where=where)
    if kinds[-1] is ...:
        kinds = [kinds[0]] * len(value)
    if len(kinds) != len(value):
        raise FormatError(f"{len(value)} items instead of {len(kinds)}", where=where)
    pairs = enumerate(zip(value, kinds, strict=True))
    return tuple(_load(item, kind, f"{where}/{i}") for i, (item, kind) in pairs)


def _load_node(members: dict[str, Any], classes: Sequence[type[Any]], where: str) -> Any:
    name = members.get("node")
    kind = next((kind for kind in classes if kind.__name__ == name), None)
    if kind is None:
        expected = " or ".join(kind.__name__ for kind in classes)
        raise FormatError(f"the node {name!r} is not {expected}", where=f"{where}/node")
    hints = get_type_hints(kind)
    given = {key: item for key, item in members.items() if key != "node"}
    for key in given:
        if key not in hints:
            hint = f"Fields: {', '.join(hints) or 'none'}"
            raise FormatError(f"{key!r} is not a field", where=f"{where}/{escape(key)}", hint=hint)
    for field in fields(kind):
        if field.name not in given and _find_default(field) is MISSING:
            raise FormatError(f"{kind.__name__} has no {field.name!r}", where=where)
    loaded = {key: _load(item, hints[key], f"{where}/{key}") for key, item in given.items()}
    try:
        node = kind(**loaded)
        if isinstance(node, CallId):
            re.compile(node.pattern)
    except (TypeError, re.error) as error:  # the class refuses it, or the pattern is none
        raise FormatError(str(error), where=where) from error
    return node
