"""What may import what, how much a folder and a file hold, and that class names are unique."""

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.shape import (
    Module,
    find_arrows,
    find_circles,
    find_class_names,
    import_graph,
    is_core,
    read_modules,
)

ROOT = Path(__file__).parents[1]
MODULES = read_modules(ROOT)
IMPORTS = import_graph(MODULES)
TESTS = read_modules(ROOT, ["tests", "benchmarks"])
MAX_LINES = 700
MAX_MODULES = 15

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path.as_posix())

MAY_NOT_IMPORT = {
    "grammars": {"constrained", "server"},
    "constrained": {"server"},
    "server": set[str](),
}
OURS_ELSEWHERE = {"tests", "examples", "benchmarks"}
LLAMA_CPP = "constrained.engine.llama"
ONLY_IN = {
    "fastapi": {module.name for module in MODULES if module.name.startswith("server.")},
    "llama_cpp": {m.name for m in MODULES if m.name.startswith(LLAMA_CPP)},
    "llguidance": {
        "constrained.mask.limits",
        "constrained.mask.matcher",
        "constrained.mask.trial_process",
        "constrained.engine.vocabulary.vocabulary",
    },
    "httpx2": {"constrained.agent.mcp.transports", "constrained.agent.mcp.connection"},
    "mcp": {module.name for module in MODULES if module.name.startswith("constrained.agent.mcp.")},
    "prometheus_client": {"server.observe.metrics"},
    "ray": {"server.cluster.ray_app", "server.cluster.ray_router", "server.cluster.command"},
    "redis": {"server.store.redis_store"},
}
ON_DEMAND = {"httpx2": "mcp", "mcp": "mcp", "ray": "ray", "redis": "redis"}
"""Packages of extras, without which there is a message that says what to install."""
BROUGHT_ALONG = {
    "constrained.inspect.peers": set(
        "lmdeploy openai_harmony qwen_agent sglang transformers vllm vllm_mlx xinference".split()
    ),
    "constrained.inspect.conformance.case_export": {"hypothesis"},
    "grammars.suite.pytest": {"pytest"},
}
"""Rooms and modules that are imported only by those who have these packages: their own parsers are
tested."""
FOR_TYPES_ONLY = {
    "llguidance": {"constrained.inspect.replay.check", "constrained.model.compile.compiler"}
}

EXTRAS = {"grammars": ["server", "suite"], "constrained": list[str](), "server": ["server"]}
"""Beside what is always installed: the extras that modules of a package may need."""

SHARED_CLASS_NAMES = {"Literal", "Repeat"}
"""Names of one meaning in two algebras: text as it stands; a body so many times."""


def find_imports(module: Module) -> Iterator[tuple[str, bool]]:
    """The top-level packages that a module imports; whether for type checkers only."""
    typing_only: set[ast.AST] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                typing_only.update(ast.walk(statement))
    for node in ast.walk(module.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module or ""]
        for name in names:
            yield name.partition(".")[0], node in typing_only


@each_module
def test_imports_go_one_way(module: Module) -> None:
    package = module.path.parts[0]
    for imported, typing_only in find_imports(module):
        assert imported not in MAY_NOT_IMPORT[package] | OURS_ELSEWHERE, imported
        if imported in ONLY_IN and module.name not in ONLY_IN[imported]:
            assert typing_only, f"{imported} is imported"
            assert module.name in FOR_TYPES_ONLY.get(imported, ()), f"{imported} is imported"


@pytest.mark.parametrize("module", [*filter(is_core, IMPORTS)])
def test_the_core_imports_nothing_that_stands_on_it(module: str) -> None:
    imported = IMPORTS[module] - {"grammars"}  # whose name is checked
    assert [name for name in sorted(imported) if not is_core(name)] == []


@pytest.mark.parametrize("package", [module.name for module in MODULES if module.is_package])
def test_arrows_run_one_way(package: str) -> None:
    """The modules and packages in a package do not import each other in a circle."""
    assert find_circles(find_arrows(package, IMPORTS)) == []


@each_module
def test_files_are_short(module: Module) -> None:
    assert len(module.lines) <= MAX_LINES


def test_folders_are_short() -> None:
    counts = Counter(m.path.parent.as_posix() for m in MODULES if not m.is_package)
    full = {folder for folder, count in counts.items() if count > MAX_MODULES}
    assert full == set()


def test_a_class_name_means_one_thing() -> None:
    """A class that is defined for type checkers and again for the interpreter counts once."""
    places = {(name, module.name) for module in MODULES for name in find_class_names(module)}
    counts = Counter(name for name, _ in places)
    repeated = {name for name, count in counts.items() if count > 1}
    assert repeated == SHARED_CLASS_NAMES


def find_test_modules(module: Module) -> list[str]:
    """The modules of tests that a module imports, or imports from."""
    names: list[str] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if any(part.startswith("test_") for part in name.split("."))]


@pytest.mark.parametrize("module", TESTS, ids=lambda module: module.path.as_posix())
def test_tests_share_helpers_by_modules_of_helpers(module: Module) -> None:
    """A module of tests that is imported by another is collected, and changed, for two reasons."""
    assert find_test_modules(module) == []


@pytest.mark.parametrize(
    "source",
    [
        "from tests.server.test_app import ask",
        "from tests.server import test_app",
        "import tests.server.test_app",
    ],
)
def test_an_import_of_tests_is_found(source: str) -> None:
    module = Module("tests.test_other", Path("tests/test_other.py"), source, ast.parse(source))
    assert find_test_modules(module)


def find_installed(requirements: Sequence[str]) -> set[str]:
    """The distributions that these requirements install, with all that they need in turn."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            extras = requirement.extras or {""}
            for needed in map(Requirement, requires(name) or ()):
                marker = needed.marker
                if marker is None or any(marker.evaluate({"extra": one}) for one in extras):
                    waiting.append(needed)
    return found


def find_brought(module: str) -> set[str]:
    """Packages that whoever imports this module has."""
    found: set[str] = set()
    for place, names in BROUGHT_ALONG.items():
        if module == place or module.startswith(f"{place}."):
            found |= names
    return found


@pytest.mark.parametrize("package", EXTRAS)
def test_what_is_imported_is_required(package: str) -> None:
    """In an environment for development nobody notices that an extra lacks something."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = list[str](project["dependencies"])
    for extra in EXTRAS[package]:
        requirements += project["optional-dependencies"][extra]
    installed = find_installed(requirements)
    homes = packages_distributions()
    imported: set[str] = set()
    for module in MODULES:
        if module.path.parts[0] == package:
            brought = find_brought(module.name)
            imported.update(name for name, _ in find_imports(module) if name not in brought)
    foreign = imported - sys.stdlib_module_names - MAY_NOT_IMPORT.keys() - ON_DEMAND.keys()
    assert project["optional-dependencies"].keys() >= set(ON_DEMAND.values())
    providers = {name: set(map(canonicalize_name, homes[name])) for name in foreign}
    assert [name for name in foreign if not providers[name] & installed] == []
