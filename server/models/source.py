"""A model that a server may load."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constrained.model.loaded_model import LoadedModel

LATEST = ":latest"
"""What Ollama's clients put behind the name of a model that has no tag."""


@dataclass(frozen=True)
class ModelSource:
    """A model that a server may load.

    Args:
        load: gives the model, in a thread; the server closes it.
        aliases: further names; in them, `*` stands for any text, and `?` for any character.
        file_bytes: size of its files; 0: not known.
        path: its file, of a split one the first part; None: not known before it is loaded.
        preloaded: it is loaded when the server starts.
    """

    name: str
    load: "Callable[[], LoadedModel]"
    aliases: tuple[str, ...] = ()
    file_bytes: int = 0
    path: Path | None = None
    preloaded: bool = False

    def answers_to(self, name: str) -> bool:
        """Returns whether this is its name, or exactly one of its aliases."""
        names = (self.name, *self.aliases)
        return name in names or name.removesuffix(LATEST) in names

    def matches(self, name: str) -> bool:
        """Returns whether an alias with `*` or `?` takes this name in."""
        return any(fnmatchcase(name, alias) for alias in self.aliases)
