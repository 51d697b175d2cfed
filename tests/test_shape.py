"""The size and shape of a small product, which is known."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import shape

FILES = {
    "grammars/__init__.py": '"""Nothing."""\n',
    "grammars/build.py": "from grammars.spell import spell\n\n\nclass Turn:\n    pass\n",
    "grammars/spell/__init__.py": "",
    "grammars/spell/styles.py": """\
# Why, in a line of its own.
import grammars.build


def spell(a, b, c, *, d, e, f):
    return [a if b else c for b in d]  # no line of its own


class _Reader:
    def read(self, a, b, c, d, e):
        return spell(a, b, c, d, e=e, f=0)
""",
    "constrained/__init__.py": "",
    "constrained/model.py": "from grammars import build\n\n\nclass Turn:\n    pass\n",
    "server/__init__.py": "",
    "tests/test_app.py": "import server\n\n",
    "docs/page.md": "# A page\n",
    "server/app.py": "from constrained.model import Turn\n\n\ndef spell():\n    pass\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, source in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    return tmp_path


def test_what_is_counted(folder: Path) -> None:
    modules = shape.read_modules(folder, ["grammars"])
    counts = shape.count(modules)
    assert counts == shape.Counts(
        file_lines=[1, 5, 0, 11],
        function_lines=[2, 2],
        long_signatures=1,
        positional_calls=1,
    )
    assert counts.lines == 17


def test_who_imports_whom(folder: Path) -> None:
    modules = shape.read_modules(folder)
    assert shape.import_graph(modules)["constrained.model"] == {"grammars.build"}


def test_circles() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert shape.find_circles(graph) == [["b", "c"], ["d", "e"]]


@pytest.mark.parametrize(
    ("values", "most"), [([], 0), ([3], 3), ([*range(1, 101)], 95.05), ([1, 1, 1], 1)]
)
def test_what_95_percent_do_not_exceed(values: list[int], most: float) -> None:
    assert shape.p95(values) == pytest.approx(most)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["shape", *arguments])
    shape.main()


def test_the_command(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = tmp_path_factory.mktemp("other") / "checkout"
    shutil.copytree(folder, other)
    run(monkeypatch, str(folder), str(other))
    printed = capsys.readouterr().out
    assert re.search(r"^lines of tests +2$", printed, re.MULTILINE)
    assert re.search(r"^words of docs +3$", printed, re.MULTILINE)
    assert "lines of the core: 5;" in printed
    assert re.search(r"^\* model +5  -> $", printed, re.MULTILINE)
    assert re.search(r"^  spell +11  -> build$", printed, re.MULTILINE)
    assert f"# 2: {other}\n" in printed
    assert printed.count("lines of a file, median") == 3, "one each, and side by side"


def test_a_folder_that_is_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, str(tmp_path))
    assert "it has no grammars/" in capsys.readouterr().err
