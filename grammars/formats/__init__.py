"""The registry of wire formats: each is a module, with one `Format` that has its name in capitals.

A new format is a new module here, and nothing else. Formats are listed, and tried on a template, in
the order of their names; but those first that state a `RANK`: the ones that most models write. Of
the chat templates of llama.cpp none is written by two of them, so that the order would decide.

Some models come with a template that shows the tools, but writes no calls of the history. What they
write is known all the same, by the text around the tools: a module states such texts as `SIGNS`.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from grammars.formats.generic import GENERIC as GENERIC
from grammars.wire.format import Fixed, Format

_LAST = 100


def _load() -> dict[str, ModuleType]:
    """The modules by the names of their formats in capitals, in their order."""
    ranked: list[tuple[int, str, ModuleType]] = []
    for found in iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        ranked.append((getattr(module, "RANK", _LAST), found.name, module))
    ranked.sort(key=lambda row: row[:2])
    return {name.upper(): module for _, name, module in ranked}


_MODULES = _load()

_BY_NAME: dict[str, Format] = {name: getattr(m, name) for name, m in _MODULES.items()}

NATIVE = tuple(format for format in _BY_NAME.values() if format is not GENERIC)
"""The formats that models were trained to write."""

FORMATS = (*NATIVE, GENERIC)


def _read_signs() -> dict[str, tuple[Fixed, ...]]:
    signs: dict[str, tuple[Fixed, ...]] = {}
    for name, module in _MODULES.items():
        signs[_BY_NAME[name].name] = getattr(module, "SIGNS", ())
    return signs


SIGNS: Mapping[str, tuple[Fixed, ...]] = _read_signs()
"""By the name of a format: what a prompt with tools has of it, where its template writes no calls.

A marker is a special token of such models, and tells of the format by itself. A literal could stand
in any prompt: it tells of the format only where the markers of the calls are special tokens, too.
"""


def __getattr__(name: str) -> Format:
    """The format with that name in capitals, such as `HERMES`."""
    if name not in _BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _BY_NAME[name]
