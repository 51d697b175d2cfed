"""Structs of msgspec, described and converted by pydantic.

Each gets a model of pydantic with the same fields, whose values become the Struct. msgspec's own
schemas would not do: to them, a `Decimal` is any text.
"""

import sys
from functools import cache, cached_property, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import CoreSchema, core_schema

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_DESCRIPTIONS = ("title", "description", "examples", "extra_json_schema")


def is_struct(kind: Any) -> TypeGuard[type]:
    """Returns whether this is a class of a Struct."""
    return isinstance(kind, type) and hasattr(kind, "__struct_config__")


def write_struct(value: Any) -> Any:
    """Returns a Struct as JSON, but for values that msgspec leaves to others."""
    return sys.modules["msgspec"].to_builtins(value)


def adopt_structs(kind: Any) -> Any:
    """Returns a type with what pydantic needs to know about the Structs in it, and about
    `msgspec.Meta`. Fields of other classes are not changed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_struct(origin or kind):
        return Annotated[kind, _StructSchema(kind)]
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


class _StructSchema:
    """Tells pydantic how to read a Struct."""

    def __init__(self, kind: Any):
        self._kind = kind

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler.generate_schema(_make_model(self._kind))
        return core_schema.no_info_after_validator_function(self._build, inner)

    @cached_property
    def _names(self) -> dict[str, str]:
        """By the fields of the model, those of the Struct."""
        return {f"p{number}": field.name for number, field in enumerate(_list_fields(self._kind))}

    def _build(self, read: BaseModel) -> Any:
        """Makes the Struct of the fields that were given; it knows the defaults of the others."""
        given: dict[str, Any] = {}
        for key, name in self._names.items():
            if key in read.model_fields_set:
                given[name] = getattr(read, key)
        return self._kind(**given)


def _list_fields(kind: Any) -> Any:
    return sys.modules["msgspec"].structs.fields(kind)


@cache
def _make_model(kind: Any) -> type[BaseModel]:
    """Makes a model with the fields of a Struct, under names that pydantic does not reserve.

    Raises:
        PydanticSchemaGenerationError: the Struct is an array.
    """
    msgspec = sys.modules["msgspec"]
    struct = get_origin(kind) or kind
    options = struct.__struct_config__
    if options.array_like:
        message = f"{struct.__name__} is written as an array: define it without array_like"
        raise PydanticSchemaGenerationError(message)
    fields: dict[str, Any] = {}
    for number, field in enumerate(_list_fields(kind)):
        parts = [part for part in get_args(field.type) if part is not msgspec.UnsetType]
        is_optional = get_origin(field.type) in (Union, UnionType)
        annotation = reduce(or_, parts) if is_optional else field.type
        known: dict[str, Any] = {"alias": field.encode_name}
        if field.default_factory is not msgspec.NODEFAULT:
            known["default_factory"] = field.default_factory
        elif field.default is msgspec.UNSET:
            known["default_factory"] = object  # never built: the Struct knows its defaults
        elif field.default is not msgspec.NODEFAULT:
            known["default"] = field.default
        fields[f"p{number}"] = (adopt_structs(annotation), Field(**known))
    if options.tag is not None:
        fields["tag"] = (Literal[options.tag], Field(alias=options.tag_field))
    extra = "forbid" if options.forbid_unknown_fields else "ignore"
    # A Struct may contain itself, so pydantic builds the model when it is in the cache.
    config = ConfigDict(defer_build=True, regex_engine="python-re", extra=extra)
    return create_model(struct.__name__, __doc__=struct.__doc__, __config__=config, **fields)
