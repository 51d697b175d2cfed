"""`constrained formats`: the wire formats that are known, and which one a template teaches."""

import argparse
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from constrained.commands.input import read_text
from constrained.commands.output import print_json, print_text
from constrained.engine.header import choose_template
from constrained.engine.host import GGUF
from constrained.teaching import detect_format
from constrained.template import ChatTemplate
from grammars.formats import FORMATS
from grammars.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire import Format

CALLS = (
    ToolCall("get_weather", {"city": "Paris", "days": 3}),
    ToolCall("get_weather", {"city": "Rome", "days": 1}),
)


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser("formats", help="list the wire formats, or detect a template's")
    parser.set_defaults(run=_list)
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    detect = parser.add_subparsers(metavar="[detect]").add_parser(
        "detect", help="the format that a chat template teaches, field by field"
    )
    detect.set_defaults(run=_detect)
    detect.add_argument("source", metavar="TEMPLATE_OR_GGUF", help="a Jinja file, or a model")
    detect.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def _list(options: argparse.Namespace) -> int:
    if options.json:
        print_json([_describe(format) for format in FORMATS])
    else:
        print_text("\n\n".join(_show(format) for format in FORMATS))
    return 0


def _describe(format: Format) -> dict[str, Any]:
    block = format.reasoning
    return {
        "name": format.name,
        "markers": format.markers,
        "reasoning": [block.opener.text, block.closer.text] if block else None,
        "one_call": render(Turn(calls=CALLS[:1]), format),
        "two_calls": None if format.single else render(Turn(calls=CALLS), format),
    }


def _show(format: Format) -> str:
    known = _describe(format)
    lines = [known["name"], f"  markers: {' '.join(known['markers']) or 'none'}"]
    lines.append(f"  reasoning: {' '.join(known['reasoning'] or ('none',))}")
    for name in ("one_call", "two_calls") if not format.single else ("one_call",):
        lines.append(f"  {name.replace('_', ' ')}:")
        lines += [f"    {line}" for line in known[name].split("\n")]
    return "\n".join(lines)


def _detect(options: argparse.Namespace) -> int:
    format = detect_format(_read_template(options.source))
    if options.json:
        print_json(_as_json(format))
        return 0
    for field in fields(format):
        value = getattr(format, field.name)
        if isinstance(value, tuple) and any(is_dataclass(part) for part in value):
            print_text("\n  ".join([f"{field.name}:", *map(repr, value)]))
        else:
            print_text(f"{field.name}: {value!r}")
    return 0


def _read_template(path: str) -> ChatTemplate:
    name = Path(path).name
    if not _is_gguf(path):
        source = read_text(path, "TEMPLATE_OR_GGUF")
        return ChatTemplate(source, bos_token="<s>", eos_token="</s>", name=name)
    from constrained.engine.llamacpp import read_header

    header = read_header(path)
    source = choose_template(header.chat_templates, with_tools=True)
    tokens = {"bos_token": header.bos_text, "eos_token": header.eos_text}
    return ChatTemplate(source, **tokens, name=name)


def _is_gguf(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(GGUF)) == GGUF
    except OSError:
        return False  # `read_text` says what is wrong


def _as_json(value: Any) -> Any:
    """A format as JSON: each node with the name of its type."""
    if is_dataclass(value):
        parts = {field.name: _as_json(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **parts}
    return [_as_json(part) for part in value] if isinstance(value, tuple) else value
