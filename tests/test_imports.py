"""Which package may import what, and how long a file may be."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("grammars", "constrained", "server")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
NAMES = [path.relative_to(ROOT).as_posix() for path in FILES]
MAX_LINES = 400

FORBIDDEN = {
    "grammars": {"constrained", "server"},
    "constrained": {"server"},
    "server": set[str](),
}
OURS_ELSEWHERE = {"tests", "examples", "benchmarks"}
ONLY_IN = {
    "llama_cpp": {name for name in NAMES if name.startswith("constrained/engine/llama")},
    "llguidance": {"constrained/mask.py", "constrained/vocabulary/vocabulary.py"},
}
FOR_TYPES_ONLY = {
    "llguidance": {
        "constrained/replay/check.py",
        "constrained/compile/compiler.py",
    }
}


def find_imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The top-level packages that a module imports; whether for type checkers only."""
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module or ""]
        for name in names:
            yield name.partition(".")[0], node in typing_only


@pytest.mark.parametrize("name", NAMES)
def test_imports_go_one_way(name: str) -> None:
    package = name.partition("/")[0]
    for imported, typing_only in find_imports(ast.parse((ROOT / name).read_text("utf-8"))):
        assert imported not in FORBIDDEN[package] | OURS_ELSEWHERE, imported
        assert imported != "fastapi" or package == "server"
        if imported in ONLY_IN and name not in ONLY_IN[imported]:
            assert typing_only, f"{imported} is imported"
            assert name in FOR_TYPES_ONLY.get(imported, ()), f"{imported} is imported"


@pytest.mark.parametrize("name", NAMES)
def test_files_are_short(name: str) -> None:
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= MAX_LINES
