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
    """Sets the name, description or strictness of a tool; decorates functions and classes.

    The decorator is optional: any function, method, pydantic model or dataclass can be a tool. It
    returns what it decorates unchanged.

    Args:
        function: the function, method or class.
        name: the name that the model sees. Default: the name of the function or class.
        description: the description that the model sees. Default: the docstring.
        strict: if False, calls that fail a check are delivered with `call.valid` False. Default:
            True.

    Returns:
        The function or class.

    Raises:
        ToolError: this object cannot be decorated, such as the method of an instance.
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
    """A tool and the function that executes it.

    Args:
        name: the name that the model sees.
        parameters: JSON schema of the arguments.
        description: the description that the model sees.
        function: the function, sync or async. None: you execute the calls.
        strict: if False, calls that fail a check are delivered with `call.valid` False. None: True.
        bind: converts JSON arguments into the positional and keyword arguments of the function;
            raises `CallError`.
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
        """Makes a tool of a function, method or other callable.

        The annotations become the schema, the docstring the descriptions. A parameter with a
        default is optional; one without annotation takes any JSON value.

        Args:
            function: the callable.
            name: see `tool`.
            description: see `tool`.
            strict: see `tool`.

        Returns:
            The tool.

        Raises:
            ToolError: the callable has no name, or a parameter that JSON cannot express.
        """
        options = _Options(name, description, strict)
        return _make(function, options, read=read_function, run=function)

    @classmethod
    def from_model(
        cls,
        model: type,
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool | None = None,
    ) -> "FunctionTool":
        """Makes a tool of a pydantic model or dataclass: its fields are the arguments.

        Executing a call returns an instance.

        Args:
            model: the class.
            name: see `tool`.
            description: see `tool`.
            strict: see `tool`.

        Returns:
            The tool.

        Raises:
            ToolError: a field has a type that JSON cannot express.
        """
        options = _Options(name, description, strict)
        return _make(model, options, read=read_model, run=_return)

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
        """Makes a tool of a JSON schema.

        Args:
            name: the name that the model sees.
            schema: JSON schema of the arguments.
            function: takes the arguments as keywords, as JSON values. None: you execute the calls.
            description: the description that the model sees.
            strict: see `tool`.

        Returns:
            The tool.
        """
        return cls(name, schema, description, function=function, strict=strict)

    def to_json(self) -> dict[str, Any]:
        """Returns the tool as JSON, in OpenAI's form."""
        body: dict[str, Any] = {
            "name": self.name,
            "description": self.description,  # also if it is empty: some templates fail without
            "parameters": self.parameters,
        }
        if self.strict is not None:
            body["strict"] = self.strict
        return {"type": "function", "function": body}


def _make(
    given: Any,
    options: _Options,
    *,
    read: Callable[[Any], Signature],
    run: Callable[..., Any],
) -> FunctionTool:
    decorated = _read_mark(given)
    name = options.name or decorated.name or getattr(given, "__name__", None)
    if name is None or name == "<lambda>":
        hint = "Use FunctionTool.from_function(function, name=...)"
        raise ToolError(f"{given!r} has no valid name for a tool", hint=hint)
    signature = read(given)
    description = signature.description
    strict = None
    for source in (decorated, options):  # the caller has the last word
        if source.description is not None:
            description = source.description
        if source.strict is not None:
            strict = source.strict
    return FunctionTool(
        name=name,
        parameters=signature.schema,
        description=description,
        function=run,
        strict=strict,
        bind=signature.bind,
    )


def _read_mark(given: Any) -> _Options:
    """The options of `@tool`; a subclass does not inherit them."""
    if isinstance(given, type):
        return vars(given).get(_MARK) or _Options()
    return getattr(given, _MARK, None) or _Options()


def as_tool(given: Any) -> Any:
    """Functions, other callables and model classes as `FunctionTool`; all else as it is.

    Raises:
        ToolError: a callable that cannot be a tool.
    """
    if isinstance(given, FunctionTool | Mapping) or _is_mcp(given) or not callable(given):
        return given
    if is_model(given):
        return FunctionTool.from_model(given)
    if isinstance(given, type):
        hint = "Use a function, a pydantic model or a dataclass"
        raise ToolError(f"class {given.__qualname__} has no fields to be arguments", hint=hint)
    return FunctionTool.from_function(given)


def as_json(given: Any) -> Any:
    """A tool in a JSON shape; what is none, or no tool, as it is.

    Raises:
        ToolError: a callable that cannot be a tool.
    """
    given = as_tool(given)
    if isinstance(given, FunctionTool):
        return given.to_json()
    if _is_mcp(given):
        description = getattr(given, "description", None) or ""
        return {"name": given.name, "description": description, "inputSchema": given.inputSchema}
    return given


def _is_mcp(given: Any) -> bool:
    """Tells an `mcp.types.Tool` by its attributes: the package `mcp` need not be installed."""
    return hasattr(given, "name") and hasattr(given, "inputSchema")


def find_tool(name: str, tools: Iterable[Any]) -> FunctionTool | None:
    """The tool of that name as a `FunctionTool`; None if it is not there, or only in JSON."""
    for given in tools:
        tool = as_tool(given)
        if isinstance(tool, FunctionTool) and tool.name == name:
            return tool
    return None
