"""A wire format as JSON text, and back: to look at, to compare, to keep and to change.

Every object tells with `node` what it is; fields that have their default are left out.
"""

import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from grammars.errors import FormatError
from grammars.schema.nodes import escape
from grammars.wire import format as wire
from grammars.wire import variants
from grammars.wire.format import CallId, Format, Hole

_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        wire.Format,
        wire.Reasoning,
        wire.Content,
        wire.Literal,
        wire.Marker,
        wire.Name,
        wire.CallId,
        wire.CallIndex,
        wire.JsonCall,
        wire.JsonArguments,
        wire.TaggedArguments,
        wire.PythonArguments,
        wire.NestedArguments,
        wire.JsonStyle,
        variants.OneOf,
        variants.Handle,
    )
}
_KINDS = {str: "a text", int: "an integer", bool: "true or false", type(None): "null"}


def dump_format(format: Format) -> str:
    """The text of a format: a field a line, lists of nodes a node a line."""
    lines = [f"  {_text(key)}: {_spread(value)}" for key, value in _dump(format).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _spread(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(v, dict) for v in cast(list[Any], value)):
        return _text(value)
    items = [f"    {_text(item)}" for item in cast(list[Any], value)]
    return "[\n" + ",\n".join(items) + "\n  ]"


def _dump(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_dump(item) for item in cast(tuple[Any, ...], value)]
    if type(value).__name__ not in _CLASSES:
        return value
    own = {field.name: getattr(value, field.name) for field in fields(value)}
    written = {f.name: _dump(own[f.name]) for f in fields(value) if own[f.name] != _default(f)}
    return {"node": type(value).__name__, **written}


def _default(field: "Field[Any]") -> Any:
    """What stands in the field if nothing else is said; MISSING if something has to be said."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def load_format(text: str) -> Format:
    """The format that the text describes.

    Raises:
        FormatError: the text is not JSON, or describes no format.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", where="") from error
    format = cast(Format, _load(value, Format, ""))
    if not any(isinstance(node, Hole) for node in format.call):
        hint = f"Add one of: {', '.join(kind.__name__ for kind in get_args(Hole))}"
        raise FormatError("a call has no place for arguments", where="/call", hint=hint)
    return format


def _load(value: Any, kind: Any, where: str) -> Any:
    """The value as the annotation `kind` wants it."""
    origin = get_origin(kind)
    if origin in (types.UnionType, Union):
        return _load_union(value, get_args(kind), where)
    if origin is tuple:
        return _load_items(value, get_args(kind), where)
    if kind in _KINDS:
        if type(value) is not kind:
            raise FormatError(f"{value!r} is not {_KINDS[kind]}", where=where)
        return value
    return _load_node(value, (kind,), where)


def _load_union(value: Any, kinds: Sequence[Any], where: str) -> Any:
    if isinstance(value, dict):
        classes = tuple(kind for kind in kinds if kind in _CLASSES.values())
        return _load_node(cast(dict[str, Any], value), classes, where)
    plain = next((kind for kind in kinds if type(value) is kind and kind in _KINDS), None)
    if plain is None:
        names = [_KINDS.get(kind) or str(kind.__name__) for kind in kinds]
        raise FormatError(f"{value!r} is not {' or '.join(names)}", where=where)
    return value


def _load_items(value: Any, kinds: Sequence[Any], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise FormatError(f"{value!r} is not a list", where=where)
    items = cast(list[Any], value)
    if kinds[-1] is ...:
        kinds = [kinds[0]] * len(items)
    if len(kinds) != len(items):
        raise FormatError(f"{len(items)} items instead of {len(kinds)}", where=where)
    pairs = enumerate(zip(items, kinds, strict=True))
    return tuple(_load(item, kind, f"{where}/{i}") for i, (item, kind) in pairs)


def _load_node(value: Any, classes: Sequence[type[Any]], where: str) -> Any:
    expected = " or ".join(kind.__name__ for kind in classes)
    if not isinstance(value, dict):
        raise FormatError(f"{value!r} is not an object: {expected}", where=where)
    members = cast(dict[str, Any], value)
    kind = next((k for k in classes if k.__name__ == members.get("node")), None)
    if kind is None:
        message = f"the node {members.get('node')!r} is not {expected}"
        raise FormatError(message, where=f"{where}/node")
    hints = get_type_hints(kind)
    given = {key: item for key, item in members.items() if key != "node"}
    for key in given:
        if key not in hints:
            hint = f"Fields: {', '.join(hints) or 'none'}"
            raise FormatError(f"{key!r} is no field", where=f"{where}/{escape(key)}", hint=hint)
    missing = [f.name for f in fields(kind) if _default(f) is MISSING and f.name not in given]
    if missing:
        raise FormatError(f"{kind.__name__} has no {missing[0]!r}", where=where)
    loaded = {key: _load(item, hints[key], f"{where}/{key}") for key, item in given.items()}
    return _make(kind, loaded, where)


def _make(kind: Callable[..., Any], loaded: Mapping[str, Any], where: str) -> Any:
    """The node itself; what it refuses, and a pattern that is none, is an error of the text."""
    try:
        node = kind(**loaded)
        if isinstance(node, CallId):
            re.compile(node.pattern)
    except (TypeError, re.error) as error:
        raise FormatError(str(error), where=where) from error
    return node
