"""Calls in JSON that models write in another form than their own: the keys that they use, and what
is a call."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from grammars.schema.json_values import Json
from grammars.spelling.reading import read_json
from grammars.turn import Tool

NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name", "recipient_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "tool_input")
GROUP_KEYS = ("tool_calls", "tool_call", "function_call", "function_calls", "calls", "tool_uses")
"""Keys of a member whose value has the calls."""
ID_KEYS = ("id", "call_id", "tool_call_id")
TYPES = ("function", "tool", "function_call", "tool_call", "tool_use", "call")
"""Values of a member `type` that say no more than that this is a call."""
SCHEMA_KEYS = ("type", "properties", "$schema", "required", "$defs")
"""The first keys of a schema. After `"parameters"`, they quote a tool."""
PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "call:")
"""Words that models write before the name of a function."""
_TAG_WITH_NAME = re.compile(
    r"<[^\s=<>]*(?:=|\s+(?:name|tool|function)\s*=\s*)[\"']?([^\"'<>\s=]+)[\"']?\s*>"
)


@dataclass(frozen=True)
class WholeCall:
    """A complete call in JSON."""

    name: str
    arguments: dict[str, Json]
    id: str | None


class CallWords:
    """The words with which models name the tools that may be called."""

    def __init__(self, tools: Mapping[str, Tool]):
        self._tools = tools
        self.words = [prefix + name for prefix in ("", *PREFIXES) for name in tools]

    def find_tool(self, word: str) -> str:
        """Returns the offered tool that a word names, perhaps after a prefix; "": none."""
        for prefix in ("", *PREFIXES):
            name = word.removeprefix(prefix)
            if name in self._tools:
                return name
        return ""

    def find_in_tag(self, tag: str) -> str:
        """Returns the offered tool that a tag names; "": it names none."""
        match = _TAG_WITH_NAME.fullmatch(tag)
        return self.find_tool(match[1]) if match else ""

    def declares(self, name: str, key: str) -> bool:
        objects = self._tools[name].schema.objects
        return any(member.key == key for node in objects for member in node.properties)

    def is_schema_key(self, name: str, key: str) -> bool:
        """Returns whether this is the first key of a schema, and not declared by the tool."""
        return key in SCHEMA_KEYS and not self.declares(name, key)

    def list_calls(self, value: Json, id: str | None = None) -> Sequence[WholeCall]:
        """Returns the calls in a JSON value; `id`: that of the object around it. Raises a
        `ValueError` if something in it is no call of an offered tool."""
        if isinstance(value, list) and value:
            return [call for item in cast(list[Json], value) for call in self.list_calls(item)]
        if not isinstance(value, dict):
            raise ValueError("no call")
        members = cast(dict[str, Json], value)
        parts = {key: one for key, one in members.items() if not says_nothing(key, one)}
        ids = [str(one) for key, one in members.items() if key in ID_KEYS and one not in (None, "")]
        id = ids[0] if ids else id
        for key in (*GROUP_KEYS, *NAME_KEYS):
            if len(parts) == 1 and isinstance(parts.get(key), dict | list):
                return self.list_calls(parts[key], id)
        names = [key for key in parts if key in NAME_KEYS]
        keys = [key for key in parts if key in ARGUMENT_KEYS]
        if len(names) != 1 or len(keys) > 1 or len(parts) != len(names) + len(keys):
            raise ValueError("something would be lost")
        word = parts[names[0]]
        name = self.find_tool(word) if isinstance(word, str) else ""
        arguments: Json = parts[keys[0]] if keys else {}
        if isinstance(arguments, str):
            arguments = read_json(arguments)
        if not name or not isinstance(arguments, dict):
            raise ValueError("no call of an offered tool")
        given = cast(dict[str, Json], arguments)
        if keys == ["parameters"] and self.is_schema_key(name, next(iter(given), "")):
            raise ValueError("a tool, not a call")
        return [WholeCall(name, given, id)]


def says_nothing(key: str, value: Json) -> bool:
    """Returns whether a member of a call says no more than that it is one."""
    if key == "type":
        return value in TYPES
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if key == "index":
        return is_number
    return key in ID_KEYS and (value is None or is_number or isinstance(value, str))
