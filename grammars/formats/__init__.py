"""The registry of wire formats: each is a module, with one `Format` that has its name in capitals.

A new format is a new module here, and nothing else. Formats are listed, and tried on a template, in
the order of their names; but those first that state a `RANK`: the ones that most models write. Of
the chat templates of llama.cpp none is written by two of them, so that the order would decide.
"""

from importlib import import_module
from pkgutil import iter_modules

from grammars.formats.generic import GENERIC as GENERIC
from grammars.wire.format import Format

_LAST = 100


def _load() -> dict[str, Format]:
    """The formats by their names in capitals, in their order."""
    ranked: list[tuple[int, str, Format]] = []
    for found in iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        rank = getattr(module, "RANK", _LAST)
        ranked.append((rank, found.name, getattr(module, found.name.upper())))
    ranked.sort(key=lambda row: row[:2])
    return {name.upper(): format for _, name, format in ranked}


_BY_NAME = _load()

NATIVE = tuple(format for format in _BY_NAME.values() if format is not GENERIC)
"""The formats that models were trained to write."""

FORMATS = (*NATIVE, GENERIC)


def __getattr__(name: str) -> Format:
    """The format with that name in capitals, such as `HERMES`."""
    if name not in _BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _BY_NAME[name]
