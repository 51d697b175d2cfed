"""The tools of OpenAI's dialects, as functions that a model can call.

Functions stay as they are. The tools of a namespace (Responses) get its name as a prefix. A custom
tool takes a text: it becomes a function with this text as its only argument, in the format of the
tool. Tools that only OpenAI or the client's own software can execute, such as `web_search`, are
left out, and the reply names them. Tools of MCP servers are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from constrained.errors import Error
from grammars.errors import SchemaError
from grammars.regex.lark_texts import express_lark
from grammars.schema.json_values import JsonObject
from server.errors import refuse
from server.settings import Settings
from server.turns.request_checks import check_size

INPUT = "input"  # the argument with the text of a custom tool
JOINT = "__"  # between a namespace and the name of a tool
_SCHEMAS = ("parameters", "input_schema", "inputSchema")
NO_MCP = (
    "this server calls no tools of MCP servers: let the client connect to the MCP server and send "
    "its tools as functions, or use constrained chat --mcp, or Model.run in Python"
)


@dataclass(frozen=True)
class ToolForm:
    """How the client knows a tool. A custom one takes a text instead of arguments. One
    `is_described` by the API, not by the client; its calls have a special form."""

    name: str
    namespace: str | None = None
    is_custom: bool = False
    is_described: bool = False


@dataclass(frozen=True)
class SkippedTool:
    """A tool that neither this server nor the client can execute."""

    type: str
    where: str


@dataclass(frozen=True)
class OfferedTools:
    """The tools of a request.

    Args:
        functions: the tools as functions, in the client's order.
        forms: by the names of functions: how the client knows them, if not as functions.
        places: the JSON pointer of each function in the request.
    """

    functions: tuple[Any, ...] = ()
    forms: Mapping[str, ToolForm] = field(default_factory=dict[str, ToolForm])
    skipped: tuple[SkippedTool, ...] = ()
    places: tuple[str, ...] = ()

    def skips(self, type: Any) -> bool:
        """Returns whether a tool of this type is left out. The type may be any JSON value."""
        return any(tool.type == type for tool in self.skipped)

    def find_form(self, name: str) -> ToolForm:
        return self.forms.get(name, ToolForm(name))

    def translate_choice(self, choice: Any) -> Any:
        """Returns the `tool_choice` with the names of functions."""
        match choice:
            case {"type": "allowed_tools", "allowed_tools": {"tools": list(tools)} as body}:
                allowed = self._translate_allowed(tools, "/tool_choice/allowed_tools/tools")
                return {**choice, "allowed_tools": {**body, "tools": allowed}}
            case {"type": "allowed_tools", "tools": list(tools)}:
                return {**choice, "tools": self._translate_allowed(tools, "/tool_choice/tools")}
            case {"type": "custom", "custom": {"name": str(name)}}:
                return {"type": "function", "name": self._find_name(name, None)}
            case {"type": "function" | "custom", "name": str(name)}:
                return {"type": "function", "name": self._find_name(name, choice.get("namespace"))}
            case {"type": "mcp"}:
                raise refuse(NO_MCP, "/tool_choice", "unsupported_tool")
            case {"type": str(kind)} if self.find_form(kind).is_described:
                return {"type": "function", "name": kind}
            case {"type": str(kind)} if self.skips(kind):
                message = f"tool_choice asks for {kind!r}, which this server cannot run"
                raise refuse(message, "/tool_choice", "unsupported_tool")
            case _:
                return choice

    def _translate_allowed(self, tools: Sequence[Any], where: str) -> list[Any]:
        allowed: list[Any] = []
        for tool in tools:
            if isinstance(tool, Mapping) and self.skips(tool.get("type")):
                continue
            allowed.append(self.translate_choice(tool))
        if tools and not allowed:
            message = "this server can run none of the tools that it allows"
            raise refuse(message, where, "unsupported_tool")
        return allowed

    def _find_name(self, name: str, namespace: Any) -> str:
        """Returns the function that the client knows by this name; the name itself, if there is
        none."""
        found: list[str] = []
        for function, form in self.forms.items():
            if form.name == name and namespace in (None, form.namespace):
                found.append(function)
        return found[0] if len(found) == 1 else name

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Makes errors that are raised inside point to the tools of the request."""
        try:
            yield
        except Error as error:
            error.where = self.locate(error.where)
            raise

    def locate(self, where: str | None) -> str | None:
        """Returns the place in the request of an error in a function; other places stay as they
        are."""
        _, _, pointer = (where or "").partition("/")
        list_name, _, rest = pointer.partition("/")
        number, slash, below = rest.partition("/")
        is_tool = list_name == "tools" and number.isdecimal()
        if not is_tool or int(number) >= len(self.places):
            return where
        place = self.places[int(number)]
        if place.endswith("/format"):  # of a custom tool: the client does not know the function
            return place
        return f"{place}{slash}{below}"


def find_function_name(function: Any) -> str | None:
    """Returns the name of a function, in any tool shape; None: it has none."""
    body = function.get("function", function) if isinstance(function, Mapping) else None
    name = body.get("name") if isinstance(body, Mapping) else None
    return name if isinstance(name, str) else None


def join_name(namespace: str | None, name: str) -> str:
    return f"{namespace}{JOINT}{name}" if namespace else name


def pack_input(text: str) -> JsonObject:
    return {INPUT: text}


def read_offered_tools(
    tools: Sequence[Any],
    settings: Settings,
) -> OfferedTools:
    """Reads the tools of a request."""
    reader = _ToolReader(settings)
    for number, tool in enumerate(tools):
        reader.read(tool, f"/tools/{number}", None)
    count = len(reader.functions)
    if count > settings.max_tools:
        message = f"there are {count:,} tools, the limit is {settings.max_tools:,}: send fewer, or "
        message += "raise --max-tools"
        raise refuse(message, "/tools", "too_many_tools")
    return OfferedTools(
        tuple(reader.functions), reader.forms, tuple(reader.skipped), tuple(reader.places)
    )


def enforce_strictly(tool: Any, settings: Settings) -> Any:
    """Removes `strict: false`, which many clients send by default: a call that fits its schema is
    valid for a lenient client, too. `--lenient-tools` keeps it."""
    if settings.lenient_tools or not isinstance(tool, Mapping):
        return tool
    body = tool.get("function")
    if isinstance(body, Mapping) and body.get("strict") is False:
        return {**tool, "function": _drop_strict(body)}
    return _drop_strict(tool) if tool.get("strict") is False else tool


def _drop_strict(body: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in body.items() if key != "strict"}


class _ToolReader:
    def __init__(self, settings: Settings):
        self._settings = settings
        self.functions: list[Any] = []
        self.places: list[str] = []
        self.forms: dict[str, ToolForm] = {}
        self.skipped: list[SkippedTool] = []

    def read(self, tool: Any, where: str, namespace: str | None) -> None:
        check_size(tool, self._settings, where)
        match tool:
            case {"type": "namespace", "name": str(name), "tools": list(inner)}:
                for number, member in enumerate(inner):
                    self.read(member, f"{where}/tools/{number}", join_name(namespace, name))
            case {"type": "custom"}:
                self._add_custom(tool, where, namespace)
            case {"type": "mcp" | "mcp_toolset"} if not _is_function(tool):
                raise refuse(NO_MCP, f"{where}/type", "unsupported_tool")
            case {"type": str(kind)} if kind != "function" and not _is_function(tool):
                self.skipped.append(SkippedTool(kind, where))
            case _:
                self._add_function(tool, where, namespace)

    def _add_function(self, tool: Any, where: str, namespace: str | None) -> None:
        function = enforce_strictly(tool, self._settings)
        if namespace is not None and isinstance(tool, Mapping):
            function = self._rename(function, namespace)
        self.functions.append(function)
        self.places.append(where)

    def _rename(self, tool: Mapping[str, Any], namespace: str) -> Any:
        """Renames a function of a namespace, so that its name is unique in the request."""
        body = tool.get("function", tool)
        name = body.get("name") if isinstance(body, Mapping) else None
        if not isinstance(name, str) or not name:
            return tool  # the reader of functions reports the error
        joint = join_name(namespace, name)
        self.forms[joint] = ToolForm(name, namespace)
        renamed = {**body, "name": joint}
        return renamed if body is tool else {**tool, "function": renamed}

    def _add_custom(self, tool: Mapping[str, Any], where: str, namespace: str | None) -> None:
        body = tool
        if "custom" in tool:  # Chat Completions
            body, where = tool["custom"], f"{where}/custom"
        name = body.get("name") if isinstance(body, Mapping) else None
        if not isinstance(name, str) or not name:
            raise refuse("a tool has no name", f"{where}/name")
        joint = join_name(namespace, name)
        text, note = _read_format(body.get("format"), f"{where}/format")
        description = "\n\n".join(filter(None, (body.get("description"), note)))
        parameters = {
            "type": "object",
            "properties": {INPUT: text},
            "required": [INPUT],
            "additionalProperties": False,
        }
        self.forms[joint] = ToolForm(name, namespace, is_custom=True)
        function = {"name": joint, "description": description, "parameters": parameters}
        self.functions.append({"type": "function", "function": function})
        self.places.append(f"{where}/format")


def _is_function(tool: Mapping[str, Any]) -> bool:
    """Returns True for a tool with a special type that is described like a function."""
    if isinstance(tool.get("function"), Mapping):
        return True
    return any(isinstance(tool.get(key), Mapping) for key in _SCHEMAS)


def _read_format(given: Any, where: str) -> tuple[JsonObject, str]:
    """Returns the schema of a custom tool's text, and a description for the model."""
    body = given
    if isinstance(given, Mapping) and isinstance(given.get("grammar"), Mapping):
        body = {"type": "grammar", **given["grammar"]}  # Chat Completions
        where = f"{where}/grammar"
    match body:
        case None | {"type": "text"}:
            return {"type": "string"}, ""
        case {"type": "grammar", "syntax": "regex", "definition": str(definition)}:
            pattern = f"^(?:{definition})$"
        case {"type": "grammar", "syntax": "lark", "definition": str(definition)}:
            try:
                pattern = express_lark(definition)
            except SchemaError as error:
                message = ". ".join(filter(None, (error.message, error.hint)))
                where = f"{where}/definition"
                raise refuse(message, where, "invalid_grammar") from error
        case _:
            message = (
                'the format must be {"type": "text"}, or of type "grammar" with a syntax '
                '("lark" or "regex") and a definition'
            )
            raise refuse(message, where)
    note = f"Its input has to match this grammar ({body['syntax']}):\n{definition}"
    return {"type": "string", "pattern": pattern}, note
