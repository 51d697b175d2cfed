"""The arguments of a call in Python -> text."""

from grammars.errors import RenderError
from grammars.schema.nodes import Json, escape
from grammars.spelling.python import Ends, is_word
from grammars.spelling.python_values import RAW
from grammars.spelling.styles import spell
from grammars.turn import ToolCall
from grammars.wire.format import PythonArguments


def render_python(call: ToolCall, hole: PythonArguments, ends: Ends, where: str) -> str:
    """The arguments as the template writes them.

    Raises:
        RenderError: a key is no word, or a string holds what would end it.
    """
    items: list[str] = []
    for key, value in call.arguments.items():
        at = f"{where}/arguments/{escape(key)}"
        if not is_word(key):
            raise RenderError(f"the key {key!r} cannot be written in such a call", where=at)
        if isinstance(value, str) and not ends.holds(value, RAW):
            raise RenderError("the value contains what would end it", where=at)
        items.append(key + hole.after_key + _spell(value, hole))
    return hole.item.join(items)


def _spell(value: Json, hole: PythonArguments) -> str:
    match value:
        case str():
            return RAW + value + RAW
        case dict():
            return spell(value, hole.objects)
        case _:
            return spell(value, hole.style)
