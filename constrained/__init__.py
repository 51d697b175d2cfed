"""Reliable tool calls from local, quantized models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from constrained.engine.protocol import Sampling
    from constrained.model.loading import from_llama, load
    from constrained.model.model import Model
    from constrained.tools.functions import FunctionTool, tool
    from constrained.tools.reports import report_tools

    __version__: str

__all__ = ["FunctionTool", "Model", "Sampling", "from_llama", "load", "report_tools", "tool"]

_HOMES = {
    "FunctionTool": "constrained.tools.functions",
    "Model": "constrained.model.model",
    "Sampling": "constrained.engine.protocol",
    "from_llama": "constrained.model.loading",
    "load": "constrained.model.loading",
    "report_tools": "constrained.tools.reports",
    "tool": "constrained.tools.functions",
}


def __getattr__(name: str) -> Any:
    """Imports the module of a public name where it is first used: `import constrained` is light."""
    if name == "__version__":
        return import_module("constrained.own_packages").read_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), "__version__", *__all__]
