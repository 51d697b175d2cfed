"""What the documents name is there: paths, commands, links, limits, messages."""

import argparse
import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks.shape import CORE
from constrained.cli.commands import chat
from server.commands import serve
from server.settings import Settings
from tests.snippets import FENCE, read_pages

ROOT = Path(__file__).parents[1]
DOCUMENTS = ["CONTRIBUTING.md", "docs/architecture.md"]
TOP = "grammars|constrained|server|tests|docs|examples|benchmarks"
PATH = re.compile(rf"(?<![\w/.-])(?:{TOP})/[\w./-]*[\w/]|\b[A-Z]+\.md\b")
MAX_ROOMS = 12  # names that a stranger sees when looking into a package
COMMAND = re.compile(r"python -m ([\w.]+)")
LINK = re.compile(r"\]\(([^)#:]+)\)")
TARGET = re.compile(r"(?:^|`)make ([\w-]+)", re.MULTILINE)


def is_there(path: Path) -> bool:
    """Is it a folder or a file? A module may be named without its `.py`."""
    return path.exists() or path.with_name(f"{path.name}.py").exists()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_paths_exist(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    paths = PATH.findall(text)
    assert len(paths) > 10
    assert [path for path in paths if not is_there(ROOT / path)] == []
    links = LINK.findall(text)
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_commands_exist(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    modules = set(COMMAND.findall(text)) - {"pytest"}
    assert [name for name in modules if not is_there(ROOT / name.replace(".", "/"))] == []
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(TARGET.findall(text)) <= set(targets)


def test_limits_that_the_security_page_names_exist() -> None:
    text = (ROOT / "docs/security.md").read_text("utf-8")
    options = ""
    for command in (serve, chat):  # the options for MCP servers are those of `chat`
        parser = argparse.ArgumentParser()
        command.add(parser)
        options += parser.format_help()
    named = set(re.findall(r"`(--?[a-z][a-z-]*)", text))
    assert len(named) > 10
    assert [option for option in named if f"{option} " not in f"{options} "] == []
    fields = re.findall(r"`Settings\.(\w+)`", text)
    assert fields != []
    assert [name for name in fields if not hasattr(Settings(), name)] == []


@pytest.mark.parametrize("document", ["SECURITY.md", "docs/security.md"])
def test_links_and_commands_of_the_security_pages(document: str) -> None:
    test_named_commands_exist(document)
    links = LINK.findall((ROOT / document).read_text("utf-8"))
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("package", ["grammars", "constrained", "server"])
def test_every_room_is_described_and_the_core_is_marked(package: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = text.partition(f"\n| `{package}/` |")[2].partition("\n\n")[0]
    described: dict[str, bool] = {}
    for names in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE):
        for name, star in re.findall(r"`([a-z_]+)(?:\.py)?`( \*)?", names):
            described[name] = bool(star)
    folders = {init.parent for init in (ROOT / package).glob("*/__init__.py")}
    rooms = {path.stem for path in folders | set((ROOT / package).glob("[!_]*.py"))}
    assert described == {room: room in CORE[package] for room in rooms}
    assert len(rooms) <= MAX_ROOMS


def test_each_row_of_where_to_change_what_names_paths_that_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = text.partition("\n## Where to change what\n")[2].partition("\n## ")[0]
    _, _, *rows = re.findall(r"^\|(.*)\|$", table, re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        _, change, further = row.split("|")
        named = [name for name in re.findall(r"`([^`]+)`", change + further) if "/" in name]
        assert named, row
        assert [name for name in named if not (ROOT / name).exists()] == [], row


@pytest.mark.parametrize("package", ["grammars", "constrained", "server"])
def test_the_folders_of_tests_are_those_of_the_code(package: str) -> None:
    folders = {test.parent for test in (ROOT / "tests" / package).rglob("test_*.py")}
    mirrored = [folder.relative_to(ROOT / "tests") for folder in sorted(folders)]
    assert [folder for folder in mirrored if not is_there(ROOT / folder)] == []


PAGES = {str(page.relative_to(ROOT)): page for page in read_pages()}
LINK_TO = re.compile(r"!?\[[^\]]*\]\((?!https?:)([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
MESSAGE = re.compile(r"^\|(?: \d+)? (?:`` ?(.+?) ?``|`(.+?)`)", re.MULTILINE)
FIELD = re.compile(r"\.\.\.|`")
OTHERS = (  # messages that pip, the system and servers of others write
    "CMake Error",
    "Illegal instruction",
    "Address already in use",
    "reply_does_not_fit",
)


def read_prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return FENCE.sub("", page.read_text("utf-8"))


def find_anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub does it."""
    words = [re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(read_prose(page))]
    return {word.replace(" ", "-") for word in words}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = PAGES[name]
    for link in LINK_TO.findall(read_prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in find_anchors(target), f"{name}: {link}"


def test_every_page_is_reached_from_the_index_and_from_llms_txt() -> None:
    for index in ("docs/README.md", "docs/llms.txt"):
        links = LINK_TO.findall((ROOT / index).read_text("utf-8"))
        reached = {(ROOT / "docs" / link).resolve() for link in links}
        pages = set((ROOT / "docs").glob("*.md")) - {ROOT / "docs/README.md"}
        assert pages - reached == set(), index


def read_sources() -> str:
    """All code, with texts that are cut into several lines joined."""
    files = [
        file for top in ("constrained", "grammars", "server") for file in (ROOT / top).rglob("*.py")
    ]
    source = "\n".join(file.read_text("utf-8") for file in files)
    return re.sub(r"[\"']\s*\n\s*f?[\"']", "", source)


def test_messages_that_troubleshooting_explains_are_in_the_code() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    messages = [first or second for first, second in MESSAGE.findall(text)]
    own = [message for message in messages if not message.startswith(OTHERS)]
    assert len(own) > 30
    source = read_sources()
    parts = [part.strip(" .:;") for message in own for part in FIELD.split(message)]
    assert [part for part in parts if part not in source] == []


def test_the_comparison_has_the_source_of_each_cell_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    table = readme.partition("\n## How it compares\n")[2].partition("\n## ")[0]
    header, _, *rows = re.findall(r"^\|(.*)\|$", table, re.MULTILINE)
    projects = [cell.strip() for cell in header.split("|")][1:]
    assert projects[0] == "constrained"
    sections = (ROOT / "docs/comparison.md").read_text("utf-8").split("\n## ")
    by_title = {text.partition("\n")[0].lower(): text for text in sections}
    assert len(rows) == 5
    for row in rows:
        title, *cells = (cell.strip().strip("`").lower() for cell in row.split("|"))
        section = by_title[title]
        for project, cell in zip(projects, cells, strict=True):
            [statement] = re.findall(rf"^- \*\*{project}\*\*: (.*)$", section, re.MULTILINE)
            assert cell
            assert "](" in statement or "`python -m" in statement, (title, project)


def test_the_index_of_the_benchmarks_names_each_once() -> None:
    index = benchmarks.__doc__ or ""
    rows = re.findall(r"^- [^:]+: ([^;.]+)", index, re.MULTILINE)
    named = re.findall(r"\w+", " ".join(rows))
    there = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__"}
    assert sorted(named) == sorted(there)
