"""`constrained formats`: lists the known wire formats, and detects the one of a template."""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli import options as shared
from constrained.cli.terminal.input import read_text
from constrained.cli.terminal.output import print_json, print_text
from constrained.engine.files.input_files import begins_with
from constrained.engine.host import GGUF
from constrained.errors import RequestError
from grammars.turn import ToolCall, Turn

if TYPE_CHECKING:
    from constrained.prompt.template.chat_template import ChatTemplate
    from grammars.infer.detection import Evidence
    from grammars.wire.format import Format

CALLS = (
    ToolCall("get_weather", {"city": "Paris", "days": 3}, id="abcdefgh1"),
    ToolCall("get_weather", {"city": "Rome", "days": 1}, id="abcdefgh2"),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_list)
    parser.add_argument("--json", action="store_true", help="print JSON")
    detect = parser.add_subparsers(metavar="[detect]").add_parser(
        "detect", help="the format of a chat template, with the evidence"
    )
    detect.set_defaults(run=_run_detect)
    detect.add_argument(
        "source", metavar="TEMPLATE_OR_GGUF", help="a Jinja file, or a model file or name"
    )
    help = "also show the format as text, and what each probe gave"
    detect.add_argument("-v", "--verbose", action="store_true", help=help)
    shared.add_special_tokens(detect)
    detect.add_argument("--save", metavar="FILE", help="also write the format to a file")
    detect.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def _list(options: argparse.Namespace) -> int:
    from grammars.wire.formats import FORMATS

    if options.json:
        print_json(list(map(_describe, FORMATS)))
    else:
        print_text("\n\n".join(map(_show, FORMATS)))
    return 0


def _describe(format: "Format") -> dict[str, Any]:
    from grammars.parse.render import render

    known: dict[str, Any] = {"name": format.name, "markers": format.markers, "reasoning": None}
    if format.reasoning is not None:
        known["reasoning"] = [format.reasoning.opener.text, format.reasoning.closer.text]
    known["one_call"] = render(Turn(calls=CALLS[:1]), format)
    known["two_calls"] = None
    if not format.single:
        known["two_calls"] = render(Turn(calls=CALLS), format)
    return known


def _show(format: "Format") -> str:
    known = _describe(format)
    block = ("none",) if format.reasoning is None else format.reasoning.shown
    lines = [
        known["name"],
        f"  markers: {' '.join(known['markers']) or 'none'}",
        f"  reasoning: {' '.join(block)}",
    ]
    for title, text in (("one call", known["one_call"]), ("two calls", known["two_calls"])):
        if text is not None:
            lines.append(f"  {title}:")
            lines += [f"    {line}" for line in text.split("\n")]
    return "\n".join(lines)


def _run_detect(options: argparse.Namespace) -> int:
    from constrained.prompt.format_selection.selection import select_format
    from grammars.wire.format_text import dump_format

    template, special = read_template(options.source, options.special_tokens)
    found = select_format(template, special_tokens=special)
    forms = _find_message_forms(found.template)
    written = dump_format(found.format)
    if options.save:
        Path(options.save).write_text(written, encoding="utf-8")
    if options.json:
        rows = list(map(asdict, found.evidence))
        format = json.loads(written)
        print_json(
            {"origin": found.origin, "format": format, "evidence": rows, "message_forms": forms}
        )
        return 0
    name, shown = _show(found.format).split("\n", 1)
    print_text(f"{name}: {found.origin}\n{shown}")
    for form, kinds in forms.items():
        print_text(f"  messages: {form} ({'; '.join(kinds)})")
    if options.verbose:
        print_text(written)
        for row in found.evidence:
            print_text(f"{row.probe}: {row.conclusion}")
            if row.text:
                print_text(f"  {row.text!r}")
        return 0
    print_text("  evidence (--verbose shows all of it):")
    for line in _summarise(found.evidence):
        print_text(f"    {line}")
    return 0


def _summarise(evidence: "Iterable[Evidence]") -> Iterator[str]:
    """Yields a line for each conclusion."""
    probes = defaultdict[str, list[str]](list)
    for row in evidence:
        probes[row.conclusion].append(row.probe)
    for conclusion, of_it in probes.items():
        if len(of_it) > 1:
            yield f"{conclusion}: {len(of_it)} probes"
        else:
            yield f"{of_it[0]}: {conclusion}"


def _find_message_forms(template: "ChatTemplate") -> dict[str, list[str]]:
    """Returns the forms in which messages are written, or why they are not, each with the kinds of
    conversations."""
    from constrained.prompt.template.arrival_probes import Fate, probe_arrivals

    forms = defaultdict[str, list[str]](list)
    for arrival in probe_arrivals(template):
        for form in arrival.forms:
            forms[form.value].append(arrival.kind)
        if arrival.fate in (Fate.LOST, Fate.REFUSED):
            forms[f"{arrival.fate}: {arrival.reason}"].append(arrival.kind)
    return forms


def read_template(
    path: str, special_tokens: Sequence[str] | None
) -> "tuple[ChatTemplate, frozenset[str] | None]":
    """Reads a template, that of a GGUF file or of a model by name, or that in a
    `tokenizer_config.json`; returns it with the texts of special tokens, if they are known."""
    from constrained.inspect.doctor.subject import read_subject
    from constrained.model_files.sources import find_known
    from constrained.prompt.template.chat_template import ChatTemplate

    if path != "-" and not Path(path).exists() and (known := find_known(path)):
        path = str(known)
    name = Path(path).name
    if not _is_gguf(path):
        if name.endswith(".json"):
            source = read_subject(path).source
        else:
            source = read_text(path, "TEMPLATE_OR_GGUF")
        if source is None:
            hint = "Give a tokenizer_config.json, a Jinja file, or a GGUF file"
            raise RequestError(f"{name} has no chat_template", hint=hint)
        template = ChatTemplate(source, bos_token="<s>", eos_token="</s>", name=name)
        return template, None if special_tokens is None else frozenset(special_tokens)
    from constrained.engine.header import choose_template
    from constrained.engine.llama_files import read_header

    header = read_header(path)
    source = choose_template(header.chat_templates)
    tokens = {"bos_token": header.bos_text, "eos_token": header.eos_text}
    special = frozenset((*header.vocabulary.named.values(), *(special_tokens or ())))
    return ChatTemplate(source, **tokens, name=name), special


def _is_gguf(path: str) -> bool:
    try:
        return begins_with(path, GGUF)
    except OSError:
        return False  # `read_text` says what is wrong
