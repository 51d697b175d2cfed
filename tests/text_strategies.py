"""Strategies for text that is easily got wrong, and keys to match."""

import re
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from grammars.regex.string_formats import FORMATS

FRAGMENTS = (
    "<tool_call>|</tool_call>|<think>|</think>|<function=|</function>|<parameter=|</parameter>|"
    "\n|\n\n| |null|None|true|True|1|-1.5|1e5|{|}|[|]|\"|'|\\|\\u0041|/|<|>|&|é|日本|🙂|\x00|\x7f|"
    "\u2028|,|:|</|\n</parameter>|\n</parameter>\n|\t|\r\n"
).split("|")
"""Pieces of the formats' own syntax, and characters that are easily got wrong."""

TEXTS: SearchStrategy[str] = st.text(max_size=12) | st.lists(
    st.sampled_from(FRAGMENTS), max_size=6
).map("".join)

KEYS = (
    "a|b|type|name|properties|required|enum|items|arguments|null|True|$ref|$defs|path|content|é|日本|"
    'it\'s|say "hi"|two words|a/b~c|x.y|a&b|0|-|a=b|back\\slash'
).split("|")
UNTAGGED_KEYS = ["", " lead", "<a>", "x\ny", "\x01", "a>b"]
"""Keys that can be written in JSON, but not between tags."""


@cache
def texts_of_format(name: str) -> SearchStrategy[str]:
    """Texts of a string format, of large classes of characters only the ends.

    Hypothesis lists all characters of a class: a million of them take a second, and the expression
    of an IRI has a dozen such classes.
    """
    expression = re.sub("([\u00a0-\U0010ffff])-([\u00a0-\U0010ffff])", _keep_ends, FORMATS[name])
    return st.from_regex(expression, fullmatch=True)


def _keep_ends(characters: re.Match[str]) -> str:
    first, last = map(ord, characters.groups())
    if last - first < 200:
        return characters[0]
    return f"{chr(first)}-{chr(first + 9)}{chr(last)}"
