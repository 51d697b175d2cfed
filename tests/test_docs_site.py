"""The pages of the documentation site, before they are built."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import constrained
from constrained.cli.commands import COMMANDS
from tests.snippets import FENCE

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")


@pytest.fixture(scope="module")
def docs_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / ".ci" / "docs_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(docs_pages: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["docs_pages.py", str(folder)])
        docs_pages.main()
    return folder


def test_all_links_stay_within_the_site(pages: Path) -> None:
    found = 0
    for page in pages.rglob("*.md"):
        prose = "" if len(page.suffixes) > 1 else FENCE.sub("", page.read_text("utf-8"))
        for link in LINK.findall(prose):
            found += 1
            target = (page.parent / link).resolve()
            assert target.is_file(), f"{page.relative_to(pages)}: {link}"
            assert target.is_relative_to(pages), link
    assert found > 100


def test_the_navigation_names_every_page_of_docs(pages: Path) -> None:
    config = (ROOT / "zensical.toml").read_text("utf-8")
    named = set(re.findall(r'"([\w./-]+\.md)"', config))
    assert [name for name in named if not (pages / name).is_file()] == []
    documents = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert documents <= named
    assert tomllib.loads(config)["project"]["site_dir"] == "build/site"


def test_programs_and_folders_have_pages(pages: Path) -> None:
    listed = (pages / "examples" / "README.md").read_text("utf-8")
    assert "- [first_call.py](first_call.py.md): A first call" in listed
    assert "def main() -> None:" in (pages / "examples" / "first_call.py.md").read_text("utf-8")


def test_references_have_all_commands_and_public_names(pages: Path) -> None:
    commands = (pages / "docs/reference/command-line.md").read_text("utf-8")
    headings = re.findall(r"^## (\w+)$", commands, re.MULTILINE)
    assert len(headings) == len(COMMANDS) + 2  # and those of the server
    assert "--max-body" in commands
    python = (pages / "docs/reference/python.md").read_text("utf-8")
    assert [name for name in constrained.__all__ if f"## {name}\n" not in python] == []
    assert "### Model.call\n" in python


def test_a_link_that_leads_nowhere_is_refused(docs_pages: ModuleType, tmp_path: Path) -> None:
    site = docs_pages.Site(tmp_path / "site")
    with pytest.raises(SystemExit, match=r"nothing is at gone\.md"):
        site._follow(ROOT / "README.md", "gone.md")
