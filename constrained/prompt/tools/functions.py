"""Tools written in Python: functions, methods and model classes, and all those of a file."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

from constrained.errors import describe_unknown
from constrained.limits.isolated_call import Isolation, check_isolated
from constrained.prompt.tools.signatures import (
    Bound,
    Signature,
    is_model,
    read_function,
    read_model,
)
from grammars.errors import ToolError
from grammars.schema.json_values import Json
from grammars.turn import ToolCall

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__constrained_tool__"


Cost: TypeAlias = float | Callable[[ToolCall], float]
"""The cost of a call, in a unit of the user's choice."""


class SchemaToolOptions(TypedDict, total=False):
    """Options of a tool that is made of a JSON schema; see `ToolOptions`."""

    description: str | None
    strict: bool | None
    read_only: bool
    repeatable: bool
    cost: Cost | None
    isolate: bool | Isolation


class ToolOptions(SchemaToolOptions, total=False):
    """Options of `tool` and `FunctionTool`.

    Attributes:
        name: the name that the model sees. Default: the name of the function or class.
        description: the description that the model sees. Default: the docstring.
        strict: if False, calls that fail a check are delivered with `call.valid` False. Default:
            True.
        read_only: the tool changes nothing. The agent loop may then start a call while the model is
            still writing the turn, in another thread, and repeat it after a crash. Default: False.
        repeatable: one turn may have the same call several times, such as two rolls of a die. Calls
            of other tools are not repeated in a turn. Default: False.
        cost: the cost of a call for `Budget`: a number, or a function of the call. Default: 0.
        isolate: run calls in a separate process, with limits on time and memory; True: those of
            `Isolation`. Default: False.
    """

    name: str | None


@overload
def tool(function: F, /, **options: Unpack[ToolOptions]) -> F: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Sets the name, description or other options of a tool; decorates functions and classes.

    The decorator is optional: any function, method, pydantic model or dataclass can be a tool. It
    returns what it decorates unchanged.

    Args:
        function: the function, method or class.
        options: see `ToolOptions`.

    Returns:
        The function or class.

    Raises:
        ToolError: this object cannot be decorated, such as the method of an instance.
    """
    _check_options(options)
    if function is None:
        return functools.partial(tool, **options)
    target = function
    if isinstance(function, staticmethod | classmethod):
        target = function.__func__
    try:
        setattr(target, _MARK, options)
    except (AttributeError, TypeError) as e:
        hint = "Use FunctionTool.from_function(function, name=...)"
        raise ToolError(f"{function!r} cannot be decorated", hint=hint) from e
    return function


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in ToolOptions.__annotations__:
            raise TypeError(describe_unknown(name, ToolOptions.__annotations__, of=" of a tool"))


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
        read_only: see `ToolOptions`.
        repeatable: see `ToolOptions`.
        cost: see `ToolOptions`.
        isolation: limits of a separate process in which calls run; None: they run in this one.
    """

    name: str
    parameters: Mapping[str, Any]
    description: str = ""
    function: Callable[..., Any] | None = None
    strict: bool | None = None
    bind: Callable[[Mapping[str, Json]], Bound] = field(default=_bind_plainly, repr=False)
    read_only: bool = False
    repeatable: bool = False
    cost: Cost | None = None
    isolation: Isolation | None = None

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], **options: Unpack[ToolOptions]
    ) -> "FunctionTool":
        """Makes a tool of a function, method or other callable.

        The annotations become the schema, the docstring the descriptions. A parameter with a
        default is optional; one without annotation takes any JSON value.

        Args:
            function: the callable.
            options: see `ToolOptions`; they replace what `@tool` or the function itself says.

        Returns:
            The tool.

        Raises:
            ToolError: the callable has no name, or a parameter that JSON cannot express.
        """
        return _make(function, options, read=read_function, run=function)

    @classmethod
    def from_model(cls, model: type, **options: Unpack[ToolOptions]) -> "FunctionTool":
        """Makes a tool of a pydantic model or dataclass: its fields are the arguments.

        Executing a call returns an instance.

        Args:
            model: the class.
            options: see `ToolOptions`.

        Returns:
            The tool.

        Raises:
            ToolError: a field has a type that JSON cannot express.
        """
        return _make(model, options, read=read_model, run=_return)

    @classmethod
    def from_schema(
        cls,
        name: str,
        schema: Mapping[str, Any],
        function: Callable[..., Any] | None = None,
        **options: Unpack[SchemaToolOptions],
    ) -> "FunctionTool":
        """Makes a tool of a JSON schema.

        Args:
            name: the name that the model sees.
            schema: JSON schema of the arguments.
            function: takes the arguments as keywords, as JSON values. None: you execute the calls.
            options: see `ToolOptions`.

        Returns:
            The tool.
        """
        _check_options(options)
        return _build(options, name=name, parameters=schema, function=function)

    @classmethod
    def from_mcp(cls, tool: Any, function: Callable[..., Any] | None) -> "FunctionTool":
        """Makes a tool from an MCP server's description, and a function that calls that server.

        The tool is read-only if its annotation `readOnlyHint` says so, and repeatable if its
        `_meta` has `"repeatable": true`.

        Args:
            tool: an object (`mcp.types.Tool`), or its JSON.
            function: takes the arguments as keywords. None: you execute the calls.

        Returns:
            The tool.

        Raises:
            ToolError: this is not an MCP tool.
        """
        body = tool if isinstance(tool, Mapping) else _read_mcp(tool)
        name, schema = body.get("name"), body.get("inputSchema")
        if not isinstance(name, str) or not isinstance(schema, Mapping):
            hint = "It needs a name and an inputSchema"
            raise ToolError(f"{tool!r} is not an MCP tool", hint=hint)
        return cls.from_schema(
            name,
            schema,
            function,
            description=body.get("description") or "",
            read_only=_is_read_only(body.get("annotations")),
            repeatable=_is_repeatable(body.get("_meta")),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the tool as JSON, in OpenAI's form."""
        body: dict[str, Any] = {
            "name": self.name,
            "description": self.description,  # also if it is empty: some templates fail without
            "parameters": self.parameters,
        }
        if self.strict is not None:
            body["strict"] = self.strict
        if self.repeatable:
            body["repeatable"] = True
        return {"type": "function", "function": body}


def _make(
    given: Any,
    options: ToolOptions,
    *,
    read: Callable[[Any], Signature],
    run: Callable[..., Any],
) -> FunctionTool:
    _check_options(options)
    merged: ToolOptions = {}
    for source in (_read_mark(given), options):  # options of the caller take precedence
        for option, value in source.items():
            if value is not None:
                merged[option] = value
    name = merged.get("name") or getattr(given, "__name__", None)
    if name is None or name == "<lambda>":
        hint = "Use FunctionTool.from_function(function, name=...)"
        raise ToolError(f"{given!r} has no valid name for a tool", hint=hint)
    signature = read(given)
    merged.setdefault("description", signature.description)
    return _build(merged, name=name, parameters=signature.schema, function=run, bind=signature.bind)


def _build(
    options: SchemaToolOptions,
    *,
    name: str,
    parameters: Mapping[str, Any],
    function: Callable[..., Any] | None,
    bind: Callable[[Mapping[str, Json]], Bound] = _bind_plainly,
) -> FunctionTool:
    return FunctionTool(
        name,
        parameters,
        options.get("description") or "",
        function=function,
        strict=options.get("strict"),
        bind=bind,
        read_only=options.get("read_only", False),
        repeatable=options.get("repeatable", False),
        cost=options.get("cost"),
        isolation=read_isolation(options.get("isolate", False)),
    )


def read_isolation(isolate: bool | Isolation) -> Isolation | None:
    if isinstance(isolate, Isolation):
        return isolate
    return Isolation() if isolate else None


def _read_mark(given: Any) -> ToolOptions:
    """Returns the options of `@tool`; a subclass does not inherit them."""
    if isinstance(given, type):
        return vars(given).get(_MARK) or {}
    return getattr(given, _MARK, None) or {}


def as_tool(given: Any) -> Any:
    """Converts functions, other callables, model classes and tools of MCP to `FunctionTool`
    (ToolError: it cannot be one); returns all other values unchanged."""
    if isinstance(given, FunctionTool | Mapping):
        return given
    if not callable(given):
        return FunctionTool.from_mcp(given, None) if _is_mcp(given) else given
    if is_model(given):
        return FunctionTool.from_model(given)
    if isinstance(given, type):
        hint = "Use a function, a model of pydantic 2 or a dataclass"
        raise ToolError(
            f"class {given.__qualname__} has no fields that could be arguments", hint=hint
        )
    return FunctionTool.from_function(given)


def as_json(given: Any) -> Any:
    """Converts a tool to JSON; returns values that are not tools unchanged."""
    given = as_tool(given)
    if isinstance(given, FunctionTool):
        return given.to_json()
    return given


def _read_mcp(given: Any) -> Mapping[str, Any]:
    return {
        "name": getattr(given, "name", None),
        "description": getattr(given, "description", None),
        "inputSchema": _find_schema(given),
        "annotations": getattr(given, "annotations", None),
        "_meta": getattr(given, "meta", None),
    }


def _find_schema(given: Any) -> Any:
    """Returns the schema of an `mcp.types.Tool`, whose name differs by version; or None."""
    for name in ("inputSchema", "input_schema"):
        if (schema := getattr(given, name, None)) is not None:
            return schema
    return None


def _is_read_only(annotations: Any) -> bool:
    if isinstance(annotations, Mapping):
        return annotations.get("readOnlyHint") is True
    hints = (getattr(annotations, name, None) for name in ("readOnlyHint", "read_only_hint"))
    return any(hint is True for hint in hints)


def _is_repeatable(meta: Any) -> bool:
    """Reads MCP's `_meta`, where tools have what MCP itself does not define."""
    return isinstance(meta, Mapping) and meta.get("repeatable") is True


def _is_mcp(given: Any) -> bool:
    """Recognises an `mcp.types.Tool` by its attributes: `mcp` need not be installed."""
    return hasattr(given, "name") and _find_schema(given) is not None


def find_functions(tools: Iterable[Any]) -> list[FunctionTool]:
    found = map(as_tool, tools)
    return [one for one in found if isinstance(one, FunctionTool) and one.function is not None]


def find_tool(name: str, tools: Iterable[Any]) -> FunctionTool | None:
    """Returns the tool with this name as a `FunctionTool`; None: there is none, or only JSON."""
    for given in tools:
        tool = as_tool(given)
        if isinstance(tool, FunctionTool) and tool.name == name:
            return tool
    return None


def load_functions(path: str) -> list[FunctionTool]:
    """Runs a Python file, which may import the files beside it, and returns its public functions as
    tools. ToolError: it fails, has none, or one that cannot be a tool."""
    file = Path(path)
    name = f"tools_of_{file.stem}"  # not a module that exists already, such as json
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    sys.path.append(str(file.parent.absolute()))
    module = sys.modules[name] = module_from_spec(spec)  # types of its functions are found there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        hint = "Run it alone, as a program, to see where"
        message = f"{path} cannot be run: {type(error).__name__}: {error}"
        raise ToolError(message, hint=hint) from error
    tools: list[FunctionTool] = []
    for key, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == name and not key.startswith("_"):
            tool = as_tool(value)
            if tool.isolation is not None:
                check_isolated(value, tool.name)
            tools.append(tool)
    if not tools:
        raise ToolError(f"{path} has no public function", hint="Functions with `def` become tools")
    return tools
