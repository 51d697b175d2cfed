"""Checks that the packages `grammars` and `server` are those of this project. Their names are
general: if Python finds another `grammars`, mostly a folder of the user, importing this module
fails with a clear message."""

from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import grammars

PROJECT = "constrained-calls"
"""The name of this project for pip."""


def read_version() -> str:
    """Returns the version of this project; "not installed" in a checkout that is not installed."""
    try:
        return version(PROJECT)
    except PackageNotFoundError:
        return "not installed"


def install_command(extra: str) -> str:
    return f"pip install '{PROJECT}[{extra}]'"


def check_package(package: ModuleType) -> None:
    """Raises ImportError if it is another package with the same name."""
    if getattr(package, "PROJECT", None) == PROJECT:
        return
    places = [*getattr(package, "__path__", ()), package.__file__]
    raise ImportError(
        f"`{package.__name__}` is not the package that comes with {PROJECT}, but {places[0]}: "
        "rename or move that one, or start Python elsewhere"
    )


check_package(grammars)
