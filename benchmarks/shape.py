"""Size and shape of the product code, so that two states of it can be compared.

    python -m benchmarks.shape [FOLDER ...]

A folder is a checkout of this project; without one, this checkout is measured. Of several folders,
the last table has the sums side by side. Everything is read from the syntax trees; nothing of a
folder is imported or run.
"""

import argparse
import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
PACKAGES = ("grammars", "constrained", "server")
"""The product: packages at the top level, of which each may import only those before it."""

CORE = {
    "grammars": "errors limits regex schema spelling turn turn_grammar wire parse infer".split(),
    "constrained": "errors limits engine mask prompt decode model".split(),
    "server": "errors settings http turns models dialects".split(),
}
"""The rooms of each package that import nothing which stands on them: what makes a tool call
reliable, and a thin server. The others stand on it."""

MAX_PARAMETERS = 5
MAX_POSITIONAL = 3

Graph = Mapping[str, set[str]]
"""Names, and for each one the names that it points to."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A file of Python.

    Attributes:
        name: with dots; a package's `__init__` has the name of the package.
        path: relative to the checkout.
    """

    name: str
    path: Path
    source: str
    tree: ast.Module

    @property
    def lines(self) -> list[str]:
        return self.source.splitlines()

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def functions(self) -> list[_Function]:
        """Functions and methods, nested ones included."""
        return [node for node in ast.walk(self.tree) if isinstance(node, _Function)]


def read_modules(root: Path, packages: Iterable[str] = PACKAGES) -> list[Module]:
    """Returns the modules of the packages in a checkout, in the order of their paths."""
    modules: list[Module] = []
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            source = file.read_text("utf-8")
            path = file.relative_to(root)
            modules.append(Module(_name(path), path, source, ast.parse(source, str(path))))
    return modules


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def find_imports(module: Module, names: set[str]) -> set[str]:
    """Returns the modules among `names` that a module imports, in functions and for types as
    well."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in names else node.module)
    return (found & names) - {module.name}


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Returns each module, and the modules among them that it imports."""
    names = {module.name for module in modules}
    return {module.name: find_imports(module, names) for module in modules}


def find_arrows(package: str, graph: Graph) -> dict[str, set[str]]:
    """Returns the direct children of a package (modules and packages), and which of them each
    imports."""
    depth = package.count(".") + 2
    arrows: dict[str, set[str]] = defaultdict(set)

    def child(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    for name, imported in graph.items():
        if name.startswith(f"{package}."):
            siblings = {child(other) for other in imported if other.startswith(f"{package}.")}
            arrows[child(name)] |= siblings - {child(name)}
    return dict(arrows)


def find_circles(graph: Graph) -> list[list[str]]:
    """Groups of names that reach each other (strongly connected, of two or more), sorted."""
    reached = {name: _reach(name, graph) for name in graph}
    circles: set[tuple[str, ...]] = set()
    for name in graph:
        group = {other for other in reached[name] if name in reached.get(other, set())}
        if group - {name}:
            circles.add(tuple(sorted(group | {name})))
    return [list(circle) for circle in sorted(circles)]


def _reach(start: str, graph: Graph) -> set[str]:
    """Returns everything that arrows lead to from a name."""
    reached: set[str] = set()
    open_names = [start]
    while open_names:
        for name in graph.get(open_names.pop(), set()) - reached:
            reached.add(name)
            open_names.append(name)
    return reached


def find_class_names(module: Module) -> list[str]:
    """Returns the names of the classes that a module defines."""
    return [node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]


@dataclass(frozen=True)
class Counts:
    """What is counted in some modules.

    Attributes:
        file_lines: lines of each module.
        function_lines: lines of each function, without decorators.
        long_signatures: functions of more than five parameters; `self` and `cls` do not count.
        positional_calls: calls that pass more than three arguments by position.
    """

    file_lines: list[int]
    function_lines: list[int]
    long_signatures: int
    positional_calls: int

    @property
    def lines(self) -> int:
        return sum(self.file_lines)


def count(modules: Sequence[Module]) -> Counts:
    """Counts in some modules."""
    nodes = [node for module in modules for node in ast.walk(module.tree)]
    functions = [function for module in modules for function in module.functions()]
    return Counts(
        file_lines=[len(module.lines) for module in modules],
        function_lines=[_count_lines(function) for function in functions],
        long_signatures=sum(_count_parameters(f) > MAX_PARAMETERS for f in functions),
        positional_calls=sum(
            isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL for node in nodes
        ),
    )


def _count_lines(function: _Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _count_parameters(function: _Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    own = sum(argument.arg not in ("self", "cls") for argument in named)
    return own + (arguments.vararg is not None) + (arguments.kwarg is not None)


def p95(values: Sequence[int]) -> float:
    """Returns the value that 95 % of the values do not exceed."""
    if len(values) < 2:
        return sum(values)
    return quantiles(values, n=20, method="inclusive")[-1]


def count_packages(modules: Sequence[Module]) -> dict[str, Counts]:
    """Counts in each top-level package, and in all of them ("all")."""
    counts: dict[str, Counts] = {}
    for package in PACKAGES:
        inside = [module for module in modules if module.path.parts[0] == package]
        counts[package] = count(inside)
    counts["all"] = count(modules)
    return counts


def is_core(name: str) -> bool:
    """Returns whether a module belongs to the core; a package at the top level does not."""
    package, *rooms = name.split(".")
    return bool(rooms) and rooms[0] in CORE[package]


def describe_rooms(modules: Sequence[Module]) -> Iterator[str]:
    """Yields a line for each room (a folder or module directly in a package): its lines, and which
    rooms of its package it imports."""
    graph = import_graph(modules)
    core = sum(len(module.lines) for module in modules if is_core(module.name))
    yield f"\nlines of the core: {core:,}; its rooms have a star"
    for package in PACKAGES:
        arrows = find_arrows(package, graph)
        count = sum(map(len, arrows.values()))
        yield f"\n{package}: {len(arrows)} rooms, {count} arrows"
        for room, imported in sorted(arrows.items()):
            inside = [m for m in modules if f"{m.name}.".startswith(f"{room}.")]
            lines = sum(len(module.lines) for module in inside)
            names = " ".join(sorted(name.rpartition(".")[2] for name in imported))
            mark = "*" if is_core(inside[0].name) else " "
            yield f"{mark} {room.rpartition('.')[2]:16}{lines:8,}  -> {names}"


def measure_surroundings(root: Path) -> Iterator[str]:
    """Yields how much there is beside the product: lines of code, and words of the documents."""
    yield f"{'beside it':36}"
    for folder in ("benchmarks", "tests"):
        lines = sum(len(module.lines) for module in read_modules(root, [folder]))
        yield f"{f'lines of {folder}':36}{lines:8,}"
    texts = [page.read_text("utf-8") for page in (root / "docs").rglob("*.md")]
    yield f"{'words of docs':36}{sum(len(text.split()) for text in texts):8,}"


def _write_table(columns: Mapping[str, Counts]) -> Iterator[str]:
    yield f"{'':36}" + "".join(f"{name:>13}" for name in columns)
    rows = [_write_cells(counts) for counts in columns.values()]
    for label in rows[0]:
        yield f"{label:36}" + "".join(f"{cells[label]:>13}" for cells in rows)


def _write_cells(counts: Counts) -> dict[str, str]:
    return {
        "lines": f"{counts.lines:,}",
        "modules": f"{len(counts.file_lines)}",
        "lines of a file, median / p95": _write_spread(counts.file_lines),
        "lines of a function, median / p95": _write_spread(counts.function_lines),
        "functions": f"{len(counts.function_lines):,}",
        f"functions of over {MAX_PARAMETERS} parameters": f"{counts.long_signatures}",
        f"calls of over {MAX_POSITIONAL} positional args": f"{counts.positional_calls}",
    }


def _write_spread(values: Sequence[int]) -> str:
    if not values:
        return "-"
    return f"{median(values):.0f} / {p95(values):.0f}"


def main() -> None:
    """Prints the shape of each folder."""
    parser = argparse.ArgumentParser(
        description="Prints size and shape of the product code of checkouts."
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, default=[ROOT])
    sums: dict[str, Counts] = {}
    for number, folder in enumerate(parser.parse_args().folders, 1):
        missing = [package for package in PACKAGES if not (folder / package).is_dir()]
        if missing:
            parser.error(f"{folder} is no checkout of this project: it has no {missing[0]}/")
        modules = read_modules(folder)
        counts = count_packages(modules)
        print(f"# {number}: {folder.resolve()}\n", *_write_table(counts), sep="\n")
        print(*describe_rooms(modules), sep="\n", end="\n\n")
        print(*measure_surroundings(folder), sep="\n", end="\n\n")
        sums[str(number)] = counts["all"]
    if len(sums) > 1:
        print("# side by side\n", *_write_table(sums), sep="\n")


if __name__ == "__main__":
    main()
