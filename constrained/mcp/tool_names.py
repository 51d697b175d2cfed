"""What the model calls the tools of servers: names that every wire format can write."""

import hashlib
import re
from collections.abc import Container, MutableMapping, Sequence

LONGEST = 64  # characters, as OpenAI and Anthropic have it


def name_tools(tools: Sequence[tuple[str | None, str]]) -> list[str]:
    """Names for tools, each of which has one: letters, digits and `_`, as in `server__tool`.

    Args:
        tools: the name of the server and of the tool, in order; None: without a server.
    """
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for server, tool in tools:
        name = make_word(tool)
        if server is not None:
            name = f"{make_word(server)}__{name}"
        if len(name) > LONGEST:
            name = f"{name[: LONGEST - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        names[_make_unique(name, names, numbers)] = None
    return list(names)


def make_word(name: str) -> str:
    """A name of letters, digits and `_` that does not begin with a digit."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() else word


def _make_unique(name: str, taken: Container[str], numbers: MutableMapping[str, int]) -> str:
    """The name, with a number where it is taken. `numbers` has the last one behind each beginning:
    a server may list thousands of tools of one name."""
    unique = name
    beginning = name[: LONGEST - 4]
    while unique in taken:
        number = numbers[beginning] = numbers.get(beginning, 1) + 1
        ending = f"_{number}"
        unique = f"{beginning[: LONGEST - len(ending)]}{ending}"
    return unique
