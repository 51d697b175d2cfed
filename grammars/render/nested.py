"""Arguments as nested tags -> text."""

from typing import cast

from grammars.errors import RenderError
from grammars.schema.nodes import Json, escape
from grammars.schema.numbers import are_equal
from grammars.spelling.nested import Tree, TreeReader, is_key, is_text
from grammars.spelling.styles import spell
from grammars.turn import Tool, ToolCall
from grammars.wire.format import NestedArguments


def render_nested(call: ToolCall, hole: NestedArguments, tool: Tool | None, where: str) -> str:
    """The arguments as the template writes them; but what is null is written.

    Raises:
        RenderError: a key or text cannot stand between tags, or would be read as something else.
    """
    root = f"{where}/arguments"
    tree = _plant(call.arguments, hole, root)
    if tool is not None:
        reader = TreeReader(hole, tool.schema.definitions)
        read = reader.members(tree, tool.schema.objects)
        for key, value in call.arguments.items():
            if not are_equal(read[key], value):
                message = f"{value!r} would be read back as {read[key]!r}"
                raise RenderError(message, where=f"{root}/{escape(key)}")
    return _write(tree, hole)


def _plant(value: Json, hole: NestedArguments, where: str) -> Tree:
    match value:
        case str():
            if not is_text(value, hole):
                raise RenderError("the value contains the mark of a tag", where=where)
            return Tree(value)
        case list():
            items = enumerate(cast(list[Json], value))
            return Tree("", [(hole.item, _plant(item, hole, f"{where}/{i}")) for i, item in items])
        case dict():
            members = cast(dict[str, Json], value)
            for key in members:
                if not is_key(key):
                    message = f"the key {key!r} cannot be written between tags"
                    raise RenderError(message, where=f"{where}/{escape(key)}")
            pairs = members.items()
            return Tree("", [(k, _plant(v, hole, f"{where}/{escape(k)}")) for k, v in pairs])
        case _:
            return Tree(spell(value, hole.style))


def _write(tree: Tree, hole: NestedArguments) -> str:
    parts = [hole.open(key) + _write(inner, hole) + hole.close(key) for key, inner in tree.members]
    return tree.text + "".join(parts)
