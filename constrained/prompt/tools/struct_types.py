"""Structs of msgspec, described and converted by pydantic: each gets a model with the same fields,
or a named tuple if it is written as an array. msgspec's own schemas would not do: to them, a
`Decimal` is any text."""

import sys
from contextlib import suppress
from functools import cache, partial, reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from weakref import WeakSet

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_DESCRIPTIONS = ("title", "description", "examples", "extra_json_schema")
_HOOK = "__get_pydantic_core_schema__"
_seen: WeakSet[type] = WeakSet()


def is_struct(kind: Any) -> TypeGuard[type]:
    return isinstance(kind, type) and hasattr(kind, "__struct_config__")


def write_struct(value: Any) -> Any:
    return sys.modules["msgspec"].to_builtins(value)


def adopt_structs(kind: Any) -> Any:
    """Returns a type with what pydantic needs to know about `msgspec.Meta` in it. Tells pydantic
    about the Structs in it, also those in the fields of classes; these are not changed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if "msgspec" in sys.modules and isinstance(origin or kind, type):
        _adopt_class(origin or kind)
    if origin is Literal or not arguments:
        return kind
    if origin is Annotated:
        adopted, notes = adopt_structs(arguments[0]), [*map(_read_meta, kind.__metadata__)]
        return reduce(lambda inner, note: Annotated[inner, note], notes, adopted)
    adopted = tuple(map(_adopt_argument, arguments))
    if all(new is old for new, old in zip(adopted, arguments, strict=True)):
        return kind
    if origin in (Union, UnionType):
        return reduce(or_, adopted)
    return origin[adopted]


def _adopt_class(kind: type) -> None:
    if kind in _seen:
        return
    _seen.add(kind)
    if is_struct(kind):
        if kind is not sys.modules["msgspec"].Struct and not hasattr(kind, _HOOK):
            setattr(kind, _HOOK, classmethod(_describe))
        return
    with suppress(Exception):  # annotations are the user's code; pydantic says what is wrong
        for inner in get_type_hints(kind, include_extras=True).values():
            adopt_structs(inner)


def _adopt_argument(argument: Any) -> Any:
    if isinstance(argument, list):  # of Callable
        return argument
    return adopt_structs(argument)


def _read_meta(note: Any) -> Any:
    """Returns a field of pydantic for a `msgspec.Meta`; another note as it is."""
    if not (type(note).__module__ == "msgspec" and type(note).__name__ == "Meta"):
        return note
    given: dict[str, Any] = {}
    for name in (*_CONSTRAINTS, *_DESCRIPTIONS):
        value = getattr(note, name)
        if value is not None:
            given[name] = value
    extra = given.pop("extra_json_schema", None)
    return Field(**given, json_schema_extra=extra)


def _describe(struct: Any, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Tells pydantic how to read a Struct; `kind` also has its type arguments."""
    inner = handler.generate_schema(_make_model(kind))
    return core_schema.json_or_python_schema(
        json_schema=core_schema.no_info_after_validator_function(partial(_build, kind), inner),
        python_schema=core_schema.is_instance_schema(struct),
    )


def _build(kind: Any, read: Any) -> Any:
    """Makes a Struct of the fields that were given; it knows the defaults of the others."""
    given: dict[str, Any] = {}
    for number, field in enumerate(_list_fields(kind)):
        key = f"p{number}"
        if isinstance(read, tuple) or key in read.model_fields_set:
            given[field.name] = getattr(read, key)
    return kind(**given)


@cache
def _list_fields(kind: Any) -> Any:
    return sys.modules["msgspec"].structs.fields(kind)


@cache
def _make_model(kind: Any) -> Any:
    """Makes a model or named tuple of the fields, under names that pydantic does not reserve."""
    msgspec = sys.modules["msgspec"]
    struct = get_origin(kind) or kind
    options = struct.__struct_config__
    fields: dict[str, Any] = {}
    if options.tag is not None:  # the first item of an array
        fields["tag"] = (Literal[options.tag], Field(alias=options.tag_field))
    for number, field in enumerate(_list_fields(kind)):
        parts = [part for part in get_args(field.type) if part is not msgspec.UnsetType]
        is_optional = get_origin(field.type) in (Union, UnionType)
        annotation = reduce(or_, parts) if is_optional else field.type
        known: dict[str, Any] = {"alias": field.encode_name}
        if field.default_factory is not msgspec.NODEFAULT:
            known["default_factory"] = field.default_factory
        elif field.default is not msgspec.NODEFAULT:
            known["default"] = field.default
        fields[f"p{number}"] = (adopt_structs(annotation), Field(**known))
    if options.array_like:
        items = [(name, Annotated[kind, field]) for name, (kind, field) in fields.items()]
        return NamedTuple(struct.__name__, items)
    extra = "forbid" if options.forbid_unknown_fields else "ignore"
    # A Struct may contain itself, so pydantic builds the model when it is in the cache.
    config = ConfigDict(defer_build=True, regex_engine="python-re", extra=extra)
    return create_model(struct.__name__, __doc__=struct.__doc__, __config__=config, **fields)
