"""The names of tools: each must be unique, and the format must be able to write it."""

from collections.abc import Sequence

from grammars.errors import ToolError
from grammars.spelling.json_call import open_json_call
from grammars.spelling.keyword_arguments import is_word
from grammars.wire.format import Format, JsonCall, KeywordArguments, Name, is_taggable


def check_names(names: Sequence[str], places: Sequence[str] | None = None) -> None:
    """Refuses two tools of one name.

    Args:
        places: the JSON pointers of the tools; None: the tools are a list at `/tools`.

    Raises:
        ToolError: `where` is the second one.
    """
    known: set[str] = set()
    for i, name in enumerate(names):
        if name in known:
            where = f"/tools/{i}" if places is None else places[i]
            hint = "Rename one of them"
            raise ToolError(f"two tools are called {name!r}", where=where, hint=hint)
        known.add(name)


def check_name(format: Format, name: str) -> None:
    """Raises an error for a name that would be parsed as another one.

    Raises:
        ToolError: a character in it could end it, or content begins like a call with this name.
    """
    message = f"format {format.name} cannot write the name {name!r}"
    if isinstance(format.bare, JsonCall):
        opened = open_json_call(format.bare, name)
        if any(content.opener.startswith(opened) for content in format.contents):
            raise ToolError(f"{message}: answers begin so", hint="Rename it")
    if Name() not in format.call:
        return
    is_doubtful = not is_taggable(name) or any(c in name for c in "\"'\r\t {}[]")
    if isinstance(format.hole, KeywordArguments) and not is_word(name):
        is_doubtful = True
    if is_doubtful:
        raise ToolError(message, hint="Use letters, digits, '_', '-' and '.'")
    if format.opener is None:
        return
    opened = format.opener.text + name
    if any(content.opener.startswith(opened) for content in format.contents):
        raise ToolError(message, hint="Rename it")
