"""Converts Python signatures to JSON Schema, and JSON arguments to the types of a signature."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, TypeAlias, TypeGuard, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from typing_extensions import Doc

from constrained.errors import CallError
from constrained.prompt.tools.docstrings import read_docstring
from constrained.prompt.tools.drawn_values import try_drawn_values
from constrained.prompt.tools.python_types import TypeReader, describe_type, explain_kind
from constrained.prompt.tools.struct_types import adopt_structs, is_struct
from grammars.errors import ToolError
from grammars.schema.json_values import Json
from grammars.schema.nodes import escape

Bound: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
"""Positional and keyword arguments of a call."""


@dataclass(frozen=True)
class Signature:
    """JSON Schema of the arguments, the description in the docstring ("": there is none), and what
    converts JSON arguments; that raises CallError if they do not fit."""

    schema: dict[str, Any]
    description: str
    bind: Callable[[Mapping[str, Json]], Bound]


def read_function(function: Callable[..., Any]) -> Signature:
    """Reads the signature and the docstring of a callable. A parameter with a default is optional,
    one without annotation takes any JSON value. Raises ToolError: *args, **kwargs, or a parameter
    with a type that JSON cannot express, or that takes nothing of what its schema allows."""
    name = _name(function)
    parameters = _read_parameters(function, name)
    try:
        model = _make_model(function, parameters)
        schema = describe_type(model)
    except Exception as e:  # annotations are the user's code, and may raise any error
        raise _blame(function, parameters, e) from e
    description, texts = read_docstring(_documented(function).__doc__)
    schema["additionalProperties"] = False
    properties = schema["properties"]
    if len(properties) < len(parameters):
        raise ToolError(f"{name} has two parameters with the same alias", hint="Give each its own")
    for parameter, described in zip(parameters, properties.values(), strict=True):
        if text := texts.get(parameter.name):
            described.setdefault("description", text)
    binder = _Binder(function, model, parameters, tuple(properties))
    owner = getattr(function, "__func__", function)  # methods are made anew each time
    try_drawn_values(schema, binder.reader, of=name, owner=owner)
    return Signature(schema, description, binder.bind)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _read_parameters(function: Callable[..., Any], name: str) -> list[Parameter]:
    try:
        found = inspect.signature(function, eval_str=True).parameters.values()
    except Exception as e:  # no signature, or an annotation with an unknown name
        hint = "Names in annotations must be defined in the module of the function"
        raise ToolError(f"the signature of {name} cannot be read: {e}", hint=hint) from e
    for number, parameter in enumerate(found):
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            hint = "Write the parameters out, or take one list or dict"
            raise ToolError(f"{name} takes {parameter}, which a schema cannot describe", hint=hint)
        is_bare = parameter.annotation is Parameter.empty
        if number == 0 and is_bare and parameter.name in ("self", "cls"):
            hint = "Pass the method of an instance (or class)"
            raise ToolError(f"{name} is a method without its {parameter.name}", hint=hint)
    return list(found)


def _make_model(function: Callable[..., Any], parameters: Sequence[Parameter]) -> type[BaseModel]:
    # Under our own names: pydantic reserves some (model_config), and refuses a leading underscore.
    # Not by a config, which dataclasses inherit.
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        default = parameter.default
        if default is Parameter.empty:
            default = ...
        fields[f"p{number}"] = (_alias(parameter), default)
    module = getattr(function, "__module__", None) or __name__
    return create_model("arguments", __module__=module, **fields)


def _alias(parameter: Parameter) -> Any:
    """Returns the annotation with the parameter's name, unless it has another, as alias."""
    kind: Any = adopt_structs(parameter.annotation)
    if kind is Parameter.empty:
        kind = Any
    metadata: list[Any] = []
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
    known = Field(alias=parameter.name, description=_find_description(metadata))
    return Annotated[kind, known, *metadata]  # a later Field wins


def _find_description(metadata: Sequence[Any]) -> str | None:
    """Finds a `Doc` (PEP 727), or else the first text, as in most agent libraries."""
    texts: list[str] = []
    for item in metadata:
        if isinstance(item, Doc):
            return item.documentation
        if isinstance(item, str) and item:
            texts.append(item)
    return texts[0] if texts else None


def _blame(
    function: Callable[..., Any], parameters: Sequence[Parameter], error: Exception
) -> ToolError:
    culprit = _name(function)
    for parameter in parameters:
        try:
            describe_type(_make_model(function, [parameter]))
        except Exception as e:  # as in `read_function`
            culprit, error = f"parameter {parameter.name!r} of {culprit}", e
            break
    hint = "Annotate with types that pydantic can write as JSON Schema"
    return ToolError(f"{culprit} cannot be described: {explain_kind(error)}", hint=hint)


def _documented(function: Any) -> Any:
    """Returns the object with the docstring; for an instance or partial, its class."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__


@dataclass(frozen=True)
class _Binder:
    """Binds JSON arguments to parameters; `keys` are their names, aliases among them."""

    function: Callable[..., Any]
    model: type[BaseModel]
    parameters: Sequence[Parameter]
    keys: tuple[str, ...]

    @functools.cached_property
    def reader(self) -> TypeReader:
        return TypeReader(self.model)

    def __reduce__(self) -> tuple[Any, ...]:
        # The model is made at run time and is in no module, so unpickling makes it again.
        return _make_binder, (self.function, self.keys)

    def bind(self, arguments: Mapping[str, Json]) -> Bound:
        for key in arguments:
            if key not in self.keys:
                hint = f"Available: {', '.join(self.keys) or 'none'}"
                raise CallError(f"no parameter {key!r}", where=_pointer([key]), hint=hint)
        read = _read(self.reader, arguments)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for key, parameter in zip(self.model.model_fields, self.parameters, strict=True):
            # Python fills in missing arguments, but it does not know defaults in a Field.
            value = parameter.default
            has_default = value is not Parameter.empty and not isinstance(value, FieldInfo)
            is_left_out = has_default and key not in read.model_fields_set
            if not is_left_out:
                value = getattr(read, key)
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                positional.append(value)
            elif not is_left_out:
                keywords[parameter.name] = value
        return positional, keywords


def _make_binder(function: Callable[..., Any], keys: tuple[str, ...]) -> _Binder:
    parameters = _read_parameters(function, _name(function))
    return _Binder(function, _make_model(function, parameters), parameters, keys)


@dataclass(frozen=True)
class _ModelBinder:
    kind: type

    @functools.cached_property
    def reader(self) -> TypeReader:
        return TypeReader(self.kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return _ModelBinder, (self.kind,)

    def bind(self, arguments: Mapping[str, Json]) -> Bound:
        return [_read(self.reader, arguments)], {}


def _read(reader: TypeReader, arguments: Mapping[str, Json]) -> Any:
    try:
        return reader.read(dict(arguments))
    except ValidationError as e:
        first, *further = e.errors()
        hints = [f"also {_pointer(error['loc'])}: {error['msg']}" for error in further]
        hint = "; ".join(hints) or None
        raise CallError(first["msg"], where=_pointer(first["loc"]), hint=hint) from e
    except Exception as e:  # of a validator of the user, or of the file system
        raise CallError(f"{type(e).__name__}: {e}", where="/arguments") from e


def _pointer(steps: Sequence[int | str]) -> str:
    return "/".join(["/arguments", *map(escape, map(str, steps))])


def is_model(kind: Any) -> TypeGuard[type]:
    """Returns whether the fields of a class are arguments."""
    if not isinstance(kind, type):
        return False
    has_fields = issubclass(kind, BaseModel) or hasattr(kind, "__dataclass_fields__")
    return has_fields or is_struct(kind)


def read_model(kind: type) -> Signature:
    """Reads the fields of a pydantic model or dataclass; bound arguments are one instance of it.
    Raises ToolError as `read_function` does."""
    try:
        schema = describe_type(kind)
    except Exception as e:  # annotations and hooks are the user's code
        hint = "Use types that pydantic can write as JSON Schema"
        message = f"class {kind.__qualname__} cannot be described: {explain_kind(e)}"
        raise ToolError(message, hint=hint) from e
    description = str(schema.pop("description", ""))
    binder = _ModelBinder(kind)
    try_drawn_values(schema, binder.reader, of=f"class {kind.__qualname__}", owner=kind)
    return Signature(schema, description, binder.bind)
