"""The packages that come with this one, `grammars` and `server`, have general names. Importing this
module fails with a clear message where Python finds another `grammars`, a folder of the user's in
most cases."""

from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import grammars

PROJECT = "constrained-calls"
"""The name to install this project by."""


def read_version() -> str:
    """The version of this project; "not installed" in a checkout that only lies there."""
    try:
        return version(PROJECT)
    except PackageNotFoundError:
        return "not installed"


def install_command(extra: str) -> str:
    """The command that installs an extra of this project."""
    return f"pip install '{PROJECT}[{extra}]'"


def check_package(package: ModuleType) -> None:
    """Does nothing for a package of this project.

    Raises:
        ImportError: it is another one of the same name.
    """
    if getattr(package, "PROJECT", None) == PROJECT:
        return
    places = [*getattr(package, "__path__", ()), package.__file__]
    raise ImportError(
        f"`{package.__name__}` is not the package that comes with {PROJECT}, but {places[0]}: "
        "rename or move that one, or start Python elsewhere"
    )


check_package(grammars)
