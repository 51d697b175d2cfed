"""A table of chat templates and their formats.

    python -m benchmarks.templates [FOLDER]

A row has the format of a template, whether it was inferred, found in the registry, is shown by its
prompt, or is the generic one; how the prompt starts a turn with thinking on, off and unset; and
whether turns as the template itself writes them are verified: the grammar accepts them, and the
parser reads them back. FOLDER holds templates; without one, those of llama.cpp.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.inputs.rendered import SWITCHES, TOOLS, USER, Rendered, find_start, render_turns
from constrained.inspect.replay.check import check_rows
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from examples.random_model import models_directory

HEADS = ("template", "format", "origin", *(f"thinking {s}" for s in SWITCHES), "verified", "notes")
INTRODUCTION = """# Chat templates and their formats

The chat templates of llama.cpp, and the wire format that each of them teaches: inferred from what
it renders, found in the registry, told by what its prompt shows around the tools, or the generic
format where it writes no calls. (The vocabulary of a model may tell more: with it, LFM2.5-Instruct
is lfm2, too.) Then how the prompt leaves the reasoning of a turn, and whether the turns that the
template writes (content, one call, two calls, content and a call) are accepted by the grammar and
read back by the parser.

Written by `python -m benchmarks.templates`; a test holds that it is up to date.
"""


@dataclass(frozen=True)
class Row:
    """What is to be said of a template."""

    template: str
    format: str
    origin: str
    starts: tuple[str, ...]
    verified: bool
    notes: str


def describe(path: Path) -> Row:
    """Returns the row of a template."""
    source = path.read_text(encoding="utf-8")
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>", name=path.stem)
    teaching = select_format(template)
    states = [find_start(teaching, **kwargs) for kwargs in SWITCHES.values()]
    starts = tuple(state.start.value if state else "refused" for state in states)
    turns = list(render_turns(teaching))
    verdicts = [(turn.kind, _read(path, turn)) for turn in turns]
    wrong = [kind for kind, verdict in verdicts if verdict == "wrong"]
    notes = [f"{kind}: {verdict}" for kind, verdict in verdicts if verdict]
    notes += [f"{turn.kind}: writes no {turn.lost}" for turn in turns if turn.lost]
    notes += ["one call a turn"] if teaching.format.single else []
    verified = bool(turns) and not wrong
    name, origin = teaching.format.name, teaching.origin.value
    return Row(path.stem, name, origin, starts, verified, "; ".join(notes))


def _read(path: Path, turn: Rendered) -> str:
    """Returns how the turn is read: "" where the grammar accepts it, and the parser reads what it
    says but for what is lost."""
    row = {"template": str(path), "tools": TOOLS, "messages": USER, "text": turn.text}
    (answer,) = check_rows([row])
    calls: list[Any] = [{k: c[k] for k in ("name", "arguments")} for c in answer["tool_calls"]]
    wanted: list[Any] = [call["function"] for call in turn.message.get("tool_calls", ())]
    if turn.lost in ("call", "content and call"):
        wanted = [call for call in wanted if call in calls]
    content = "" if "content" in turn.lost else turn.message["content"]
    if answer["complete"] and wanted and not calls and answer["content"].strip() == content:
        return "writes the call in a turn of its own"
    if not (answer["complete"] and answer["valid"] and calls == wanted):
        return "wrong"
    if content and answer["reasoning_content"].strip() == content:
        return "writes content as reasoning"
    return "" if answer["content"].strip() == content else "wrong"


def describe_all(folder: Path) -> list[Row]:
    """Returns the rows of all templates in a folder."""
    return [describe(path) for path in sorted(folder.glob("*.jinja"))]


def write_markdown(rows: Sequence[Row]) -> str:
    """Returns the table and its totals, in Markdown."""
    lines = [_write_line(HEADS), _write_line(["---"] * len(HEADS))]
    lines += [_write_line(_cells(row)) for row in rows]
    return "\n".join([INTRODUCTION, *lines, "", count(rows), ""])


def _write_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    verified = "yes" if row.verified else "no"
    return [row.template, row.format, row.origin, *row.starts, verified, row.notes]


def count(rows: Sequence[Row]) -> str:
    """Returns the totals."""
    origins = Counter(row.origin for row in rows)
    counted = ", ".join(f"{number} {origin}" for origin, number in sorted(origins.items()))
    verified = sum(row.verified for row in rows)
    formats = len({row.format for row in rows})
    return f"{len(rows)} templates, {formats} formats: {counted}; {verified} verified."


def main() -> int:
    """Prints the table; 1 if the turns of a template are not read."""
    parser = argparse.ArgumentParser(description="Chat templates and their formats.")
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    rows = describe_all(options.folder or models_directory() / "templates")
    print(write_markdown(rows), end="")
    return 0 if all(row.verified for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
