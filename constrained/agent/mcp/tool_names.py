"""Names for tools of servers that every wire format can write."""

import hashlib
import re
from collections.abc import Container, MutableMapping, Sequence

MAX_NAME_LENGTH = 64  # characters, the limit of OpenAI and Anthropic


def name_tools(tools: Sequence[tuple[str | None, str]]) -> list[str]:
    """Returns a unique name for each tool, of letters, digits and `_`, such as `server__tool`.

    Args:
        tools: the names of server and tool, in order; None: without a server.
    """
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for server, tool in tools:
        name = make_word(tool)
        if server is not None:
            name = f"{make_word(server)}__{name}"
        if len(name) > MAX_NAME_LENGTH:
            name = f"{name[: MAX_NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        names[_make_unique(name, names, numbers)] = None
    return list(names)


def make_word(name: str) -> str:
    """Converts a name to letters, digits and `_`, without a digit at the beginning."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() else word


def _make_unique(name: str, taken: Container[str], numbers: MutableMapping[str, int]) -> str:
    """Adds a number to a name that is taken. `numbers` has the last number for each name, since a
    server may list thousands of tools with one name."""
    unique = name
    beginning = name[: MAX_NAME_LENGTH - 4]
    while unique in taken:
        number = numbers[beginning] = numbers.get(beginning, 1) + 1
        ending = f"_{number}"
        unique = f"{beginning[: MAX_NAME_LENGTH - len(ending)]}{ending}"
    return unique
