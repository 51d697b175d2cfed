"""Gathers the pages of the documentation site, for `make docs`.

    python .ci/docs_pages.py FOLDER

The pages are those of the repository, in the same folders, and whatever they link to: documents as
they are, programs and other texts as pages that show them, folders as lists of files. References of
the command line and of the Python API are generated from the parsers and the docstrings.
"""

import ast
import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
IMAGES = (".svg", ".png")
LANGUAGES = {".py": "python", ".sh": "bash", ".jinja": "jinja", ".json": "json"}
SHORTER = ((r"\b[a-z]\w*(?:\.[a-z]\w*)*\.(?=[A-Z])", ""), (r"<function (\w+) at \w+>", r"\1"))
REFERENCES = """
Generated:

- [Command line reference](reference/command-line.md): all commands and options
- [Python reference](reference/python.md): classes, functions, options
"""


class Site:
    """The pages below a folder, which is made anew."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._known: set[Path] = set()
        shutil.rmtree(folder, ignore_errors=True)

    def add(self, source: Path) -> Path:
        """Adds a document, text, image or folder of the repository, with what it links to, unless
        it is there already.

        Returns:
            its page, relative to the repository.
        """
        page = find_page(source)
        if source not in self._known:
            self._known.add(source)
            if source.suffix in IMAGES:
                self._copy(source)
            else:
                self.write(page, self._read(source))
        return page

    def write(self, page: Path, text: str) -> None:
        """Writes a page."""
        target = self._folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _copy(self, source: Path) -> None:
        target = self._folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def _read(self, source: Path) -> str:
        if source.is_dir():
            return self._list(source)
        text = source.read_text(encoding="utf-8")
        if source.suffix == ".md":
            return LINK.sub(lambda link: self._follow(source, link[1]), text)
        name = source.relative_to(ROOT)
        return f"# {name}\n\n````{LANGUAGES.get(source.suffix, '')}\n{text}````\n"

    def _follow(self, source: Path, link: str) -> str:
        """The link to the page of what a document links to."""
        linked = (source.parent / link).resolve()
        if not linked.is_relative_to(ROOT) or not linked.exists():
            raise SystemExit(f"{source}: nothing is at {link}")
        page = self.add(linked)
        here = find_page(source).parent
        return str(Path(*[".."] * len(here.parts)) / page)

    def _list(self, folder: Path) -> str:
        """A page about a folder: its files, with the first lines of their docstrings."""
        lines = [f"# {folder.relative_to(ROOT)}", ""]
        for file in sorted(folder.iterdir()):
            if file.suffix in (".py", ".sh") and not file.name.startswith("_"):
                self.add(file)
                lines.append(f"- [{file.name}]({file.name}.md): {summarise(file)}")
        return "\n".join([*lines, ""])


def find_page(source: Path) -> Path:
    """Where the page of a document, text, image or folder is, relative to the repository."""
    name = source.relative_to(ROOT)
    if source.is_dir():
        return name / "README.md"
    if source.suffix in (".md", *IMAGES):
        return name
    return name.with_name(f"{name.name}.md")


def summarise(file: Path) -> str:
    """The first line of the docstring of a program, or of the comments of a script."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return text.splitlines()[1].lstrip("# ")


def describe_commands() -> str:
    """All commands, with the help that they print."""
    from constrained.cli.commands import COMMANDS
    from constrained.cli.parser import make_parser
    from server.commands import CLUSTER, SERVE

    parser = make_parser([*COMMANDS, SERVE, CLUSTER])
    [subparsers] = (action for action in parser._actions if isinstance(action.choices, dict))
    assert isinstance(subparsers.choices, dict)
    lines = ["# Command line reference", "", "What `constrained COMMAND --help-all` prints.", ""]
    for name, one in sorted(subparsers.choices.items()):
        lines += [f"## {name}", "", "```text", one.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def describe_python() -> str:
    """The public names of the library, with their signatures and docstrings."""
    import constrained
    from constrained.agent.run_options import RunOptions
    from constrained.engine.options import EngineOptions
    from constrained.model.call_options import Options

    lines = ["# Python reference", "", "Generated from the docstrings.", ""]
    entries = {name: getattr(constrained, name) for name in constrained.__all__}
    for options in (Options, RunOptions, EngineOptions):
        entries[options.__name__] = options
    for name, entry in entries.items():
        lines += describe(entry, name, "##")
        if inspect.isclass(entry):
            for method in find_methods(entry):
                lines += describe(method, f"{name}.{method.__name__}", "###")
    return "\n".join(lines)


def find_methods(kind: type) -> Iterator[Callable[..., Any]]:
    """The documented public methods that a class defines, or takes from another class of ours."""
    ours = [
        base for base in kind.__mro__ if base.__module__.startswith(("constrained.", "grammars."))
    ]
    for name in dict.fromkeys(name for base in ours for name in vars(base)):
        member = getattr(kind, name)
        is_method = inspect.isfunction(member) or inspect.ismethod(member)
        if is_method and not name.startswith("_") and member.__doc__:
            yield member


def describe(entry: Any, name: str, heading: str) -> list[str]:
    """Heading, signature and docstring; of an alias, what it stands for."""
    if isinstance(entry, UnionType):
        names = " | ".join(one.__name__ for one in get_args(entry))
        return [f"{heading} {name}", "", "```python", f"{name} = {names}", "```", ""]
    try:
        signature = str(inspect.signature(entry))
    except (TypeError, ValueError):
        signature = ""
    for pattern, short in SHORTER:
        signature = re.sub(pattern, short, signature)
    lines = [f"{heading} {name}", "", "```python", f"{name}{signature}", "```", ""]
    return [*lines, "```text", inspect.getdoc(entry) or "", "```", ""]


def main() -> None:
    """Gathers the pages in the folder that the command line names."""
    folder = Path(sys.argv[1])
    site = Site(folder)
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        site.add(document)
    index = folder / "docs" / "README.md"
    index.write_text(index.read_text("utf-8") + REFERENCES, encoding="utf-8")
    site.write(Path("docs/reference/command-line.md"), describe_commands())
    site.write(Path("docs/reference/python.md"), describe_python())


if __name__ == "__main__":
    main()
