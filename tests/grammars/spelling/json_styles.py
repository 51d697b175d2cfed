"""Styles of JSON, and what they can write."""

from typing import Any

from grammars.spelling.quoted import find_extra_keys
from grammars.spelling.styles import holds
from grammars.wire.format import JsonStyle
from tests.text_strategies import KEYS

QUOTE = '<|"|>'
PYTHON = JsonStyle(
    quotes=("'", '"'), true=("True", "true"), false=("False", "false"), null=("None", "null")
)
GEMMA = JsonStyle(
    item=",",
    key=":",
    quotes=(QUOTE,),
    escapes=False,
    bare_keys=True,
    sorted_keys=True,
    null=("None", "null"),
)
PRETTY = JsonStyle(indent=4, level=2)
BARE = find_extra_keys([], GEMMA)


def is_writable(value: Any, style: JsonStyle) -> bool:
    """Can the style write the value, undeclared keys too?"""
    if not style.bare_keys:
        return True
    match value:
        case list():
            return all(is_writable(item, style) for item in value)
        case dict():
            keys = all(key in KEYS or BARE.accepts(key) for key in value)
            return keys and all(is_writable(member, style) for member in value.values())
        case _:
            return holds(value, style)
