"""The registry of wire formats, a module for each kind of arguments.

A new format is one constant with the format's name in capitals, read from the chat template of the
model that its text names first; one with a new construct also a row in
`tests/agreement/chosen_formats.py`. No chat template of llama.cpp matches two formats, so the order
in which they are tried decides nothing there.
"""

from collections.abc import Iterator, Mapping

from grammars.wire.format import Fixed, Format, Literal, Marker
from grammars.wire.formats import json_arguments, json_call, keyword_arguments, tagged_arguments
from grammars.wire.formats.json_call import GENERIC as GENERIC

_USUAL = ("hermes", "qwen3_coder", "mistral", "llama3_json")
"""The formats of most models come first, the others in the order of their names."""


def _find_formats() -> Iterator[Format]:
    for module in (json_arguments, json_call, keyword_arguments, tagged_arguments):
        yield from (value for value in vars(module).values() if isinstance(value, Format))


_BY_NAME = {format.name: format for format in sorted(_find_formats(), key=lambda f: f.name)}

_IN_ORDER = dict.fromkeys([*_USUAL, *_BY_NAME])

NATIVE = tuple(_BY_NAME[name] for name in _IN_ORDER if name != "generic")
"""The formats that models were trained to write."""

FORMATS = (*NATIVE, GENERIC)

SIGNS: Mapping[str, tuple[Fixed, ...]] = {
    "lfm2": (Marker("<|tool_list_start|>"), Literal("List of tools: [")),
}
"""By the name of a format: texts by which it is recognised in a prompt with tools if the template
writes no calls.

A marker is a special token of such models and suffices. A literal could occur in any prompt, so it
counts only if the markers of the calls are special tokens, too.
"""


def __getattr__(name: str) -> Format:
    """Returns the format with this name in capitals, such as `HERMES`."""
    if name.lower() not in _BY_NAME or not name.isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _BY_NAME[name.lower()]
