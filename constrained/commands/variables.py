"""llama-server's LLAMA_ARG_* variables, for what the command line leaves open."""

import os
from collections.abc import Callable
from typing import Any

from constrained.errors import RequestError

SWITCH = {"on": True, "off": False, "auto": None}
LAYERS = {"auto": -1, "all": -1}  # llama.cpp lowers what does not fit in neither case


def read_switch(text: str) -> bool | None:
    """on, off or auto; KeyError otherwise."""
    return SWITCH[text]


def read_flag(text: str) -> bool:
    """As llama-server reads it: what it does not know is off."""
    return text in ("1", "on", "enabled", "true")


def read_layers(text: str) -> int:
    """A number, or auto or all; ValueError otherwise."""
    return LAYERS[text] if text in LAYERS else int(text)


def read_parts(text: str) -> tuple[float, ...]:
    """Numbers with commas or slashes between them; ValueError otherwise."""
    return tuple(float(part) for part in text.replace("/", ",").split(","))


KINDS: dict[Any, str] = {
    int: "a number",
    read_switch: "on, off or auto",
    read_layers: "a number, auto or all",
    read_parts: "numbers with commas between them",
}


def read_variable(variable: str, read: Callable[[str], Any], default: Any) -> Any:
    """What a variable says, or the default if it is not set.

    Raises:
        RequestError: it cannot be read.
    """
    text = os.environ.get(variable)
    return default if text is None else read_value(variable, text, read)


def read_value(name: str, text: str, read: Callable[[str], Any]) -> Any:
    """The value of an option or a variable.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        return read(text)
    except (ValueError, KeyError) as e:
        raise RequestError(f"{name} is {text!r}, not {KINDS[read]}") from e
