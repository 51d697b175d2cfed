"""Texts for a parser: what a model writes in each format, and what becomes of it by accident."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrained.tools.shapes import read_tools
from grammars.errors import RenderError
from grammars.render import render
from grammars.suite.reading import KEYS, WORDS
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format

TOOLS = read_tools(
    [
        {"name": name, "input_schema": {"type": "object", "properties": properties}}
        for name, properties in {
            "write": {"note": {"type": "string"}, "city": {"type": "string"}},
            "set": {"days": {"type": "integer"}, "unit": {"type": ["string", "null"]}},
            "list": {"lines": {"type": "array", "items": {"type": "string"}}},
            "stop": {},
        }.items()
    ]
)
_PIECES = (
    *WORDS,
    *WORDS,
    " ",
    "\n",
    '"',
    "\\",
    "<",
    ">",
    "{",
    "}",
    "é",
    "🙂",
    "</",
    "0",
    "null",
    "'",
)
_SYNTAX = (
    *' \n"\\{}[]<>/=,:0a',
    '{"name": "',
    '", "arguments": {',
    "}}",
    "</",
    "<|",
    "```",
    "null",
)


@dataclass(frozen=True)
class Input:
    """A text that a parser gets, and what kind it is."""

    kind: str
    text: str


def make_rendering(format: Format, draw: random.Random) -> str:
    """Returns a turn of up to three calls in this format; "" where it cannot be written."""
    for _ in range(20):
        content, reasoning = (_say(draw) if draw.random() < 0.5 else "" for _ in range(2))
        calls = [
            _call(draw, format) for _ in range(draw.choice((0, 1, 1, 1 if format.single else 3)))
        ]
        beside = format.bare is None and any(c.calls for c in format.contents)
        turn = Turn(
            content.strip() if beside or not calls else "",
            reasoning.strip() if format.reasoning else "",
            tuple(calls),
        )
        try:
            return render(turn, format, TOOLS)
        except RenderError:
            continue
    return ""


def _say(draw: random.Random) -> str:
    return "".join(draw.choices(_PIECES, k=draw.randint(1, 8)))


def _call(draw: random.Random, format: Format) -> ToolCall:
    tool = draw.choice(TOOLS)
    arguments: dict[str, Any] = {
        "write": {"note": _say(draw), "city": draw.choice((*format.texts, _say(draw)))},
        "set": {"days": draw.randint(-9, 99), "unit": draw.choice((None, "zorn"))},
        "list": {"lines": [_say(draw) for _ in range(draw.randint(0, 3))]},
        "stop": {},
    }[tool.name]
    id = "".join(draw.choices("abcdefgh0123", k=9))
    return ToolCall(tool.name, arguments, id=id)


def make_input(format: Format, renderings: Sequence[str], draw: random.Random) -> Input:
    """Returns the bytes that are no text, a rendering that was damaged or cut, or tags in any
    order."""
    text = draw.choice(renderings)
    match draw.randrange(4):
        case 0:
            count = draw.randint(0, 60)
            return Input("bytes", draw.randbytes(count).decode("utf-8", "replace"))
        case 1:
            return Input("mutated", _mutate(text, format, draw))
        case 2:
            return Input("truncated", text[: draw.randint(0, len(text))])
        case _:
            parts = (*format.texts, *_PIECES, *_SYNTAX, *KEYS, *(t.name for t in TOOLS))
            return Input("soup", "".join(draw.choices(parts, k=draw.randint(1, 20))))


def _mutate(text: str, format: Format, draw: random.Random) -> str:
    for _ in range(draw.choice((1, 1, 2, 3))):
        start = draw.randint(0, len(text))
        end = min(len(text), start + draw.randint(0, draw.choice((3, 12, 40))))
        match draw.randrange(4):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:end] + text[start:end] + text[end:]
            case 2:
                text = text[:start] + draw.choice((*format.texts, *_SYNTAX)) + text[start:]
            case _:
                at = draw.randint(0, len(text))
                text = text[:at] + text[start:end] + text[at:]
    return text


def cut(text: str, draw: random.Random) -> list[str]:
    """Returns the text in random pieces."""
    at = sorted(draw.choices(range(len(text) + 1), k=draw.randint(0, 6)))
    return [text[i:j] for i, j in zip([0, *at], [*at, len(text)], strict=True)]
