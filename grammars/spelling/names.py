"""The names of tools and arguments."""

import re
from collections.abc import Sequence

from grammars.errors import ToolError
from grammars.regex.texts import SPACES
from grammars.wire.format import MAX_NAME_LENGTH, is_taggable

BLANK = r"[ \t\r\n]"
"""A regular expression for one character of white space."""
WORD = rf"""[^\x00-\x20{SPACES}=,()\[\]{{}}'"<>]{{1,{MAX_NAME_LENGTH}}}"""
"""A regular expression for a key or name in calls as in Python."""


def is_word(text: str) -> bool:
    """Returns whether the text is a key or name in calls as in Python."""
    return re.fullmatch(WORD, text) is not None


def is_name(text: str) -> bool:
    """Returns whether the text is read back as a name, wherever a format writes names."""
    return is_taggable(text) and not any(character in text for character in "\"'\r\t {}[]")


def check_names(names: Sequence[str], places: Sequence[str] | None = None) -> None:
    """Raises ToolError for two tools of one name, at the second one. `places` are the JSON pointers
    of the tools; None: they are a list at `/tools`."""
    known: set[str] = set()
    for i, name in enumerate(names):
        if name in known:
            where = f"/tools/{i}" if places is None else places[i]
            hint = "Rename one of them"
            raise ToolError(f"two tools are called {name!r}", where=where, hint=hint)
        known.add(name)
