"""Wire formats of tool calls: grammar, parser and renderer. Text in, text out."""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # type checkers know this name
if TYPE_CHECKING:
    from importlib.abc import Loader
    from types import ModuleType
else:
    Loader = object  # importing the class takes 20 ms

PROJECT = "constrained-calls"
"""The name to install it by. `constrained` and `server` know by it that this is the `grammars`
that they were made with: the name is a general one, and a folder of the user's may have it."""


class _MovedModules(Loader):
    """Finds modules by the names that they had before they were moved, and what they contain.

    Args:
        moved: present names by former ones.
    """

    def __init__(self, moved: Mapping[str, str]):
        self._moved = moved

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        for former, present in self._moved.items():
            if name == former or name.startswith(f"{former}."):
                return ModuleSpec(name, self, origin=present + name.removeprefix(former))
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python to make the module, which `exec_module` replaces."""

    def exec_module(self, module: "ModuleType") -> None:
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        sys.modules[module.__name__] = import_module(module.__spec__.origin)


def keep_old_paths(moved: Mapping[str, str]) -> None:
    """Lets programs import modules by the names that documents gave them before they were moved.

    Args:
        moved: present names by former ones; what a package contains moves with it.
    """
    # First: Python's own finder would find what a moved package contains, and load it twice.
    sys.meta_path.insert(0, _MovedModules(moved))


keep_old_paths(
    {
        "grammars.format_text": "grammars.wire.format_text",
        "grammars.formats.hermes": "grammars.wire.formats.json_call",
        "grammars.formats": "grammars.wire.formats",
        "grammars.lark": "grammars.turn_grammar.turn",
        "grammars.lowering": "grammars.schema.lowering",
        "grammars.render": "grammars.parse.render",
        "grammars.steps": "grammars.limits.steps",
    }
)
