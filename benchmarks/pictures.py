"""The picture of the README: one question, answered freely and with the mask, by the same model.

    python -m benchmarks.pictures [--to docs/images]

Both turns begin with the same prompt, and the likeliest token is always taken. The free one is
what llama.cpp writes without a grammar.
"""

import argparse
import json
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import jsonschema_rs

from constrained import Model, Sampling, embedded, load
from constrained.job import Job
from examples.demo_model.evaluate import read_calls

GREEDY = Sampling(temperature=0)
MAX_TOKENS = 100
REQUEST = "we can't make it to Luigi's tonight, please cancel"
HANDWRITTEN = Path(__file__).parents[1] / "examples" / "demo_model" / "handwritten.jsonl"
IMAGES = Path(__file__).parents[1] / "docs" / "images"

WIDTH, LINE, COLUMNS = 820, 20, 88  # pixels, pixels, characters
BACKGROUND, BORDER = "#0d1117", "#3d444d"  # of its own, so that any page may have it
TEXT, DIM, BAD, GOOD = "#e6edf3", "#9198a1", "#ff7b72", "#7ee787"


@dataclass(frozen=True)
class Written:
    """What a model wrote.

    Attributes:
        text: the whole turn.
        problem: why it is no valid call; "" if it is one.
        tokens: how many it has.
        passes: how often the model was asked, the prompt included.
    """

    text: str
    problem: str
    tokens: int
    passes: int


@dataclass(frozen=True)
class Line:
    """A line of the picture, and its colour."""

    text: str
    colour: str = TEXT


def read_question(request: str) -> dict[str, Any]:
    """Returns the hand-written question with this text: its tools, and the calls that are right."""
    rows = map(json.loads, HANDWRITTEN.read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if row["request"] == request)


def find_problem(text: str, tools: list[dict[str, Any]]) -> str:
    """Why a turn is no valid call of one of the tools; "" if it is one."""
    calls = read_calls(text)
    if calls is None:
        return "not JSON: nothing can be called"
    if not calls:
        return "no call"
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for call in calls:
        if call["name"] not in schemas:
            return f"there is no tool {call['name']}"
        closed = schemas[call["name"]] | {"additionalProperties": False}
        if not jsonschema_rs.is_valid(closed, call["arguments"]):
            return "the arguments do not fit the schema"
    return ""


def write_both(model: Model, question: dict[str, Any]) -> tuple[Written, Written]:
    """Returns the turn without and the one with the mask, after the same prompt."""
    messages = [{"role": "user", "content": question["request"]}]
    masked = model.compile(Job(messages, question["tools"]))
    free = model.compile_text(masked.tokens, cache_prompt=False)
    replies = model.complete([free, masked], sampling=GREEDY, max_tokens=MAX_TOKENS)
    written: list[Written] = []
    for reply in replies:
        problem = find_problem(reply.text, question["tools"])
        usage = reply.usage
        written.append(Written(reply.text, problem, usage.completion_tokens, usage.forward_passes))
    return written[0], written[1]


def show_turn(title: str, written: Written) -> list[Line]:
    """Returns the lines of one turn: its title, its text, and what it is worth."""
    lines = [Line(title, DIM)]
    for part in written.text.splitlines():
        for piece in textwrap.wrap(part, COLUMNS - 4) or [""]:
            lines.append(Line(f"  {piece}"))
    if written.problem:
        lines.append(Line(f"  ✗ {written.problem}", BAD))
    else:
        effort = f"{written.tokens} tokens, {written.passes} forward passes"
        lines.append(Line(f"  ✓ valid call, typed arguments ({effort})", GOOD))
    return [*lines, Line("")]


def draw(lines: list[Line], description: str) -> str:
    """Returns an SVG picture of the lines, as a terminal shows them."""
    height = LINE * (len(lines) + 1)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(description)}">',
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" '
        f'fill="{BACKGROUND}" stroke="{BORDER}"/>',
        "<style>text {white-space: pre}</style>",  # browsers pass over xml:space
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" '
        'xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        if line.text:
            y = LINE * (number + 1) + 8
            drawn.append(
                f'<text x="20" y="{y}" fill="{line.colour}">{escape(line.text, quote=False)}</text>'
            )
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def draw_both(model: Model) -> str:
    """Returns the picture of the question that `REQUEST` names."""
    question = read_question(REQUEST)
    free, masked = write_both(model, question)
    names = [tool["function"]["name"] for tool in question["tools"]]
    lines = [
        Line(f"user   {REQUEST}"),
        Line(f"tools  {', '.join(names)}", DIM),
        Line(""),
        *show_turn("the model alone", free),
        *show_turn("the same model, same prompt, with the mask", masked),
    ]
    outcome = f"alone: {free.problem or 'a valid call'}; masked: {masked.problem or 'a valid call'}"
    return draw(lines, f"{REQUEST}. {outcome}")


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=IMAGES, help="folder; default: docs/images")
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    with load(embedded.PATH) as model:
        path = folder / "free_and_masked.svg"
        path.write_text(draw_both(model), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
