"""Responses: tools that OpenAI describes and the client executes: `shell` and `apply_patch`.

A request has only their type. The schema of their arguments is here, so that they are functions for
the model, and the mask enforces what the client expects. Their calls are items with special types,
which have the arguments as an object, not as JSON text. A `shell` in a container of OpenAI is left
out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.schema.json_values import JsonObject
from server.turns.offered_tools import ToolForm


@dataclass(frozen=True)
class ClientTool:
    """A tool that OpenAI describes and the client executes.

    Args:
        prefix: of the ids of its items.
        arguments_field: the field of an item with the arguments of a call.
        unfinished: the status of a call that was cut.
    """

    prefix: str
    arguments_field: str
    description: str
    parameters: JsonObject
    unfinished: str = "incomplete"


def _text(description: str, **limits: Any) -> JsonObject:
    return {"type": "string", "description": description, **limits}


def _texts(description: str) -> JsonObject:
    item = {"type": "string"}
    return {"type": "array", "items": item, "minItems": 1, "description": description}


TIMEOUT: JsonObject = {
    "type": "integer",
    "minimum": 1,
    "description": "The maximum time in milliseconds.",
}
SHELL = ClientTool(
    prefix="sh_",
    arguments_field="action",
    description="Runs commands in a shell, each on its own.",
    parameters={
        "type": "object",
        "properties": {
            "commands": _texts("The commands to run."),
            "timeout_ms": TIMEOUT,
            "max_output_length": {
                "type": "integer",
                "minimum": 1,
                "description": "The maximum number of characters to show of each output.",
            },
        },
        "required": ["commands"],
        "additionalProperties": False,
    },
)
# The lines of a diff, as the SDK for agents of OpenAI reads them.
ADDED_LINES = r"^\+[^\n]*(\n\+[^\n]*)*\n?$"
CHANGED_LINES = r"^(@@[^\n]*|[ +-][^\n]*)(\n(@@[^\n]*|[ +-][^\n]*|\*\*\* End of File))*\n?$"
APPLY_PATCH = ClientTool(
    prefix="apc_",
    arguments_field="operation",
    description=(
        "Creates, updates or deletes one file. To create, each line of the diff is + and the text "
        "of the line. To update, the lines of the diff begin with a space (unchanged), - (removed) "
        "or + (added), in the order of the file; leave out what is far from a change. A line "
        "@@ and a line of the file, such as a function's head, says where the next lines are."
    ),
    parameters={
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": _text("The path of the file."),
            "diff": _text("The changed lines; none to delete a file."),
        },
        "required": ["type", "path"],
        "additionalProperties": False,
        "anyOf": [
            {
                "properties": {"type": {"const": "create_file"}, "diff": {"pattern": ADDED_LINES}},
                "required": ["diff"],
            },
            {
                "properties": {
                    "type": {"const": "update_file"},
                    "diff": {"pattern": CHANGED_LINES},
                },
                "required": ["diff"],
            },
            {"properties": {"type": {"const": "delete_file"}, "diff": False}},
        ],
    },
    unfinished="in_progress",
)
CLIENT_TOOLS: Mapping[str, ClientTool] = {
    "shell": SHELL,
    "apply_patch": APPLY_PATCH,
}
"""By the types of the tools, which are also the names of their functions."""
CALL = "_call"  # the type of a call is the type of its tool with this ending


def describe_client_tools(tools: Sequence[JsonObject]) -> list[JsonObject]:
    """Returns the tools of a request; those that the client executes as functions."""
    return [_describe(tool) if is_client_tool(tool) else tool for tool in tools]


def list_client_forms(tools: Sequence[JsonObject]) -> dict[str, ToolForm]:
    """Returns how the client knows these tools, by the names of their functions."""
    kinds = [tool["type"] for tool in tools if is_client_tool(tool)]
    return {kind: ToolForm(kind, is_described=True) for kind in kinds}


def is_client_tool(tool: JsonObject) -> bool:
    kind = tool.get("type")
    if not isinstance(kind, str) or kind not in CLIENT_TOOLS or "parameters" in tool:
        return False
    place = tool.get("environment")
    return place is None or (isinstance(place, Mapping) and place.get("type") == "local")


def _describe(tool: JsonObject) -> JsonObject:
    known = CLIENT_TOOLS[tool["type"]]
    lines = [known.description, *_describe_skills(tool.get("environment"))]
    return {
        "type": "function",
        "name": tool["type"],
        "description": "\n".join(lines),
        "parameters": known.parameters,
    }


def _describe_skills(environment: Any) -> Iterator[str]:
    skills = environment.get("skills") if isinstance(environment, Mapping) else None
    for skill in skills if isinstance(skills, list) else ():
        if isinstance(skill, Mapping):
            yield f"- {skill.get('path')}: {skill.get('description')} ({skill.get('name')})"


def is_client_call(kind: Any) -> bool:
    """True for the type of an item that is a call of such a tool."""
    return isinstance(kind, str) and kind.endswith(CALL) and kind.removesuffix(CALL) in CLIENT_TOOLS


def describe_client_call(item: JsonObject) -> tuple[str, str]:
    """Returns the name of the function that such an item calls, and the JSON text of its arguments,
    as the model has written them."""
    name = item["type"].removesuffix(CALL)
    tool = CLIENT_TOOLS[name]
    arguments: JsonObject = {}
    for key, value in item[tool.arguments_field].items():
        if value is not None:  # null: a client has written a field out
            arguments[key] = value
    return name, json.dumps(arguments, ensure_ascii=False)
