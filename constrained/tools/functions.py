"""Tools written in Python: functions, methods and model classes."""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from constrained.tools.signatures import Bound, Signature, is_model, read_function, read_model
from grammars.errors import ToolError
from grammars.schema.nodes import Json

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__constrained_tool__"


@dataclass(frozen=True)
class _Options:
    """Name, description and strictness given by `@tool` or the caller, not the function itself."""

    name: str | None = None
    description: str | None = None
    strict: bool | None = None


@overload
def tool(
    function: F,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> F: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, strict: bool | None = None
) -> Callable[[F], F]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> Any:
    """Decorates a function, method or model class that is a tool; it stays what it is.

    Undecorated ones are tools just as well: this is for another name or description than Python
    knows, and for `strict`. The signature is read when the tool is offered.

    Raises:
        ToolError: it cannot be decorated, such as the method of an instance.
    """
    if function is None:
        return functools.partial(tool, name=name, description=description, strict=strict)
    target = function
    if isinstance(function, staticmethod | classmethod):
        target = function.__func__
    try:
        setattr(target, _MARK, _Options(name, description, strict))
    except (AttributeError, TypeError) as e:
        hint = "Use FunctionTool.from_function(function, name=...)"
        raise ToolError(f"{function!r} cannot be decorated", hint=hint) from e
    return function


def _bind_plainly(arguments: Mapping[str, Json]) -> Bound:
    return (), arguments


def _return(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class FunctionTool:
    """A tool and the function that runs it.

    Args:
        name: what the model calls it.
        parameters: JSON Schema of the arguments.
        description: shown to the model.
        function: sync or async; None leaves calls to whoever gets the reply.
        strict: whether calls have to fit the schema wholly; None is the default, True.
        bind: JSON arguments -> those of the function; raises CallError.
    """

    name: str
    parameters: Mapping[str, Any]
    description: str = ""
    function: Callable[..., Any] | None = None
    strict: bool | None = None
    bind: Callable[[Mapping[str, Json]], Bound] = field(default=_bind_plainly, repr=False)

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool | None = None,
    ) -> "FunctionTool":
        """A function, method or other callable; see `read_function`.

        Args:
            name, description, strict: instead of what `@tool` or the function itself says.

        Raises:
            ToolError: it has no name, or parameters that cannot be described.
        """
        options = _Options(name, description, strict)
        return _make(function, read_function, function, options)

    @classmethod
    def from_model(
        cls,
        model: type,
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool | None = None,
    ) -> "FunctionTool":
        """A pydantic model or dataclass: its fields are the arguments, a call makes an instance.

        Raises:
            ToolError: a field that cannot be described.
        """
        return _make(model, read_model, _return, _Options(name, description, strict))

    @classmethod
    def from_schema(
        cls,
        name: str,
        schema: Mapping[str, Any],
        function: Callable[..., Any] | None = None,
        *,
        description: str = "",
        strict: bool | None = None,
    ) -> "FunctionTool":
        """A JSON Schema, and perhaps a function that takes its properties as keywords, as JSON."""
        return cls(name, schema, description, function=function, strict=strict)

    def to_json(self) -> dict[str, Any]:
        """The tool in OpenAI's form."""
        body: dict[str, Any] = {
            "name": self.name,
            "description": self.description,  # also if it is empty: some templates fail without
            "parameters": self.parameters,
        }
        if self.strict is not None:
            body["strict"] = self.strict
        return {"type": "function", "function": body}


def _make(
    thing: Any,
    read: Callable[[Any], Signature],
    function: Callable[..., Any],
    options: _Options,
) -> FunctionTool:
    decorated = _read_mark(thing)
    name = options.name or decorated.name or getattr(thing, "__name__", None)
    if name is None or name == "<lambda>":
        hint = "Use FunctionTool.from_function(function, name=...)"
        raise ToolError(f"{thing!r} has no name that a tool can have", hint=hint)
    signature = read(thing)
    description = signature.description
    strict = None
    for given in (decorated, options):  # the caller has the last word
        if given.description is not None:
            description = given.description
        if given.strict is not None:
            strict = given.strict
    return FunctionTool(
        name=name,
        parameters=signature.schema,
        description=description,
        function=function,
        strict=strict,
        bind=signature.bind,
    )


def _read_mark(thing: Any) -> _Options:
    """The options of `@tool`; a subclass does not inherit them."""
    if isinstance(thing, type):
        return vars(thing).get(_MARK) or _Options()
    return getattr(thing, _MARK, None) or _Options()


def as_tool(thing: Any) -> Any:
    """Functions, other callables and model classes as `FunctionTool`; all else as it is.

    Raises:
        ToolError: a callable that cannot be a tool.
    """
    if isinstance(thing, FunctionTool | Mapping) or _is_mcp(thing) or not callable(thing):
        return thing
    if is_model(thing):
        return FunctionTool.from_model(thing)
    if isinstance(thing, type):
        hint = "Use a function, a pydantic model or a dataclass"
        raise ToolError(f"class {thing.__qualname__} has no fields to be arguments", hint=hint)
    return FunctionTool.from_function(thing)


def as_json(thing: Any) -> Any:
    """A tool in a JSON shape; what is none, or no tool, as it is.

    Raises:
        ToolError: a callable that cannot be a tool.
    """
    thing = as_tool(thing)
    if isinstance(thing, FunctionTool):
        return thing.to_json()
    if _is_mcp(thing):
        description = getattr(thing, "description", None) or ""
        return {"name": thing.name, "description": description, "inputSchema": thing.inputSchema}
    return thing


def _is_mcp(thing: Any) -> bool:
    """Tells an `mcp.types.Tool` by its attributes: the package `mcp` need not be installed."""
    return hasattr(thing, "name") and hasattr(thing, "inputSchema")


def find_tool(name: str, tools: Iterable[Any]) -> FunctionTool | None:
    """The tool of that name as a `FunctionTool`; None if it is not there, or only in JSON."""
    for thing in tools:
        tool = as_tool(thing)
        if isinstance(tool, FunctionTool) and tool.name == name:
            return tool
    return None
