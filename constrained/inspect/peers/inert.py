"""Packages that do nothing, in the place of heavy ones that a parser's module imports and a parser
does not use: PyTorch, CUDA, the engine itself."""

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


class Inert:
    """An object that can be called, subclassed, and used as a decorator or in an annotation."""

    def __init__(self, *_: Any, **__: Any):
        pass

    def __getattr__(self, name: str) -> Any:
        return find_inert(name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        # A decorator gets a function here.
        return args[0] if len(args) == 1 and callable(args[0]) else Inert()

    def __getitem__(self, _: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return other

    def __ror__(self, other: Any) -> Any:
        return other

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


def find_inert(name: str) -> Any:
    """Returns an inert object, but no special method: others look whether these are there."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Inert()


class InertModule(ModuleType):
    """A module in which every name is there."""

    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        return find_inert(name)


class SkippedInit(ModuleType):
    """A package without its `__init__`: it has its modules, and other names are inert."""

    def __getattr__(self, name: str) -> Any:
        inert = find_inert(name)
        path = f"{self.__name__}.{name}"
        try:
            return import_module(path)
        except ModuleNotFoundError as e:
            if e.name != path:
                raise
            return inert


class InertFinder(MetaPathFinder, Loader):
    """Finds modules of packages that are not installed."""

    def __init__(self, names: Sequence[str]):
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns a package that has every name and every module."""
        for name in self._names:
            if fullname == name or fullname.startswith(f"{name}."):
                return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return InertModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing."""


def supply_inert(names: Sequence[str]) -> None:
    """Puts inert packages in the place of those that are not installed."""
    # At the end: what is installed is found before.
    sys.meta_path.append(InertFinder(names))


def replace_by_inert(names: Sequence[str]) -> None:
    """Puts inert modules in the place of installed ones, which load the engine."""
    sys.meta_path.insert(0, InertFinder(names))


def skip_inits(*names: str) -> None:
    """Leaves out the `__init__` of packages; their modules can be imported all the same. Raises
    ModuleNotFoundError if the first of the packages is not there."""
    for name in names:
        parent, _, last = name.rpartition(".")
        if parent:
            paths = [str(Path(path) / last) for path in sys.modules[parent].__path__]
        else:
            spec = find_spec(name)
            if spec is None or spec.submodule_search_locations is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            paths = list(spec.submodule_search_locations)
        module = SkippedInit(name)
        module.__path__ = paths
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module
