"""The registry of wire formats. Each is a module with one `Format`, in a constant with the module's
name in capitals.

A new format needs only a new module here; one with a new construct also a row in
`tests/agreement/chosen_formats.py`. Formats are listed, and tried on a template, in the order
of their names; those with a `RANK`, which most models use, come first. No chat template of
llama.cpp matches two formats, so the order decides nothing there.

Some models have a template that shows the tools but writes no calls of the history. Their format is
recognised by the text around the tools, which a module has as `SIGNS`.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from grammars.wire.format import Fixed, Format
from grammars.wire.formats.generic import GENERIC as GENERIC

_LAST = 100


def _load() -> dict[str, ModuleType]:
    """Returns the modules by the names of their constants, in order."""
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
"""By the name of a format: texts by which it is recognised in a prompt with tools if the template
writes no calls.

A marker is a special token of such models and suffices. A literal could occur in any prompt, so it
counts only if the markers of the calls are special tokens, too.
"""


def __getattr__(name: str) -> Format:
    """Returns the format with this name in capitals, such as `HERMES`."""
    if name not in _BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _BY_NAME[name]
