"""Messages: tools that Anthropic defines and the client executes, such as a shell.

A request has only their types. Descriptions and schemas are added here, so that they become
ordinary tools. Unknown versions are left out, and so are tools that show pictures to the model
(`computer_...`), because it only reads text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


def describe_client_tools(tools: Sequence[Json]) -> list[Json]:
    """Returns the tools of a request. Anthropic's client tools get a name, a description and the
    schema of their input; others stay as they are.

    Args:
        tools: as the client sends them.
    """
    return [_describe(tool) for tool in tools]


def _describe(tool: Json) -> Json:
    kind = tool.get("type")
    if not isinstance(kind, str) or kind not in CLIENT_TOOLS or tool.get("input_schema"):
        return tool
    given = {name: value for name, value in tool.items() if value is not None}
    known = {**CLIENT_TOOLS[kind], **given, "type": "custom"}
    size = tool.get("max_characters")
    if isinstance(size, int) and isinstance(known["description"], str):
        known["description"] += f" A view shows at most {size:,} characters of a file."
    return known


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


@dataclass(frozen=True)
class _Command:
    """A command of a tool, and its properties.

    Args:
        needed: the names of required properties.
        optional: the names of optional properties.
    """

    needed: Sequence[str] = ("path",)
    optional: Sequence[str] = ()


def _choose_command(commands: Mapping[str, _Command], properties: Json) -> Json:
    """Returns the schema of a tool with several commands; `command` chooses one.

    All properties are in one list, because templates and models read them there. The properties of
    each command follow in `anyOf`.

    Args:
        commands: by name.
        properties: of all commands.
    """
    alternatives: list[Json] = []
    for name, command in commands.items():
        limits: Json = {"command": {"const": name}}
        for other in properties:
            if other not in (*command.needed, *command.optional):
                limits[other] = False
        alternatives.append({"properties": limits, "required": [*command.needed]})
    choice: Json = {"type": "string", "enum": [*commands], "description": "What to do."}
    return {
        "type": "object",
        "properties": {"command": choice, **properties},
        "required": ["command"],
        "additionalProperties": False,
        "anyOf": alternatives,
    }


BASH: Json = {
    "name": "bash",
    "description": "Runs a command in a shell (bash), which stays the same from call to call.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": _text("The command to run. Needed unless the shell is to be restarted."),
            "restart": {"type": "boolean", "description": "true: begins with a new shell."},
        },
        "additionalProperties": False,
        "anyOf": [
            {"required": ["command"]},
            {"properties": {"restart": {"const": True}}, "required": ["restart"]},
        ],
    },
}
LINE: Json = {
    "type": "integer",
    "minimum": 0,
    "description": "insert: the number of the line behind which the text goes; 0: to the start.",
}
RANGE: Json = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "view: the first and the last line to show, from 1 on; -1: to the end.",
}
PATH = _text("The path of a file or of a folder.")
FILE_TEXT = _text("create: what the file holds.")
OLD_TEXT = _text("str_replace: the text to replace; it has to be in the file once.")
NEW_TEXT = _text("str_replace: what to write in its place.")
INSERTED_TEXT = _text("insert: the text.")
EDITS: Mapping[str, _Command] = {
    "view": _Command(optional=("view_range",)),
    "create": _Command(("path", "file_text")),
    "str_replace": _Command(("path", "old_str"), optional=("new_str",)),
    "insert": _Command(("path", "insert_line", "insert_text")),
}
# The first versions of `insert` take the text from `new_str`.
FIRST_EDITS: Mapping[str, _Command] = {
    **EDITS,
    "insert": _Command(("path", "insert_line", "new_str")),
    "undo_edit": _Command(),
}
FIRST_TEXT = _text("str_replace: what to write in its place; insert: the text.")
EDIT_PROPERTIES: Json = {
    "path": PATH,
    "view_range": RANGE,
    "file_text": FILE_TEXT,
    "old_str": OLD_TEXT,
    "new_str": NEW_TEXT,
    "insert_line": LINE,
    "insert_text": INSERTED_TEXT,
}
FIRST_PROPERTIES: Json = {
    "path": PATH,
    "view_range": RANGE,
    "file_text": FILE_TEXT,
    "old_str": OLD_TEXT,
    "insert_line": LINE,
    "new_str": FIRST_TEXT,
}
EDITOR: Json = {
    "name": "str_replace_based_edit_tool",
    "description": "Shows, creates and edits files of text; shows what folders hold.",
    "input_schema": _choose_command(EDITS, EDIT_PROPERTIES),
}
FIRST_EDITOR: Json = {
    **EDITOR,
    "name": "str_replace_editor",
    "input_schema": _choose_command(FIRST_EDITS, FIRST_PROPERTIES),
}
MEMORY: Json = {
    "name": "memory",
    "description": (
        "A folder of files, /memories, that is kept from one conversation to the next: shows, "
        "creates, edits, deletes and renames them. Look into it before you begin a task, and "
        "note there what is to be known later."
    ),
    "input_schema": _choose_command(
        {
            **EDITS,
            "str_replace": _Command(("path", "old_str", "new_str")),
            "delete": _Command(),
            "rename": _Command(("old_path", "new_path")),
        },
        {
            **EDIT_PROPERTIES,
            "path": _text("The path of a file or of a folder, below /memories."),
            "old_path": _text("rename: the path that it has."),
            "new_path": _text("rename: the path that it gets."),
        },
    ),
}
CLIENT_TOOLS: Mapping[str, Json] = {
    "bash_20241022": BASH,
    "bash_20250124": BASH,
    "text_editor_20241022": FIRST_EDITOR,
    "text_editor_20250124": FIRST_EDITOR,
    "text_editor_20250429": EDITOR,
    "text_editor_20250728": EDITOR,
    "memory_20250818": MEMORY,
}
"""By the types of the tools: name, description and schema."""
