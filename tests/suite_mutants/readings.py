"""Runs a parser on a text, and adds up what it says: for tests that do not know the suite."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from grammars.suite import Reading
from grammars.turn import Tool
from tests.suite_mutants.hermes_parsers import Delta, HermesStream, HermesText
from tests.suite_mutants.mistral_parsers import MistralStream

Parser = HermesText | HermesStream | MistralStream
MakeParser = Callable[[Sequence[Tool]], Parser]


@dataclass
class Summary:
    """A turn as a client sees it.

    Args:
        content: the text.
        reasoning: the text of the reasoning.
        calls: name and arguments as JSON text of each call, in the order of their index.
        order: what came in turn: "reasoning", "content", "call".
    """

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)


def summarize(make: MakeParser, tools: Sequence[Tool], chunks: Sequence[str]) -> Summary:
    """Reads a text in these chunks; a parser of whole texts reads all of them at once."""
    parser = make(tools)
    if isinstance(parser, HermesText):
        return _summarize_reading(parser("".join(chunks)))
    deltas = [delta for chunk in chunks for delta in parser.feed(chunk)]
    return add_up([*deltas, *parser.close()])


def _summarize_reading(reading: Reading) -> Summary:
    calls = []
    for name, arguments in reading.calls:
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append((name, normalize(written)))
    return Summary(reading.content, reading.reasoning, calls)


def add_up(deltas: Sequence[Delta]) -> Summary:
    """Adds up deltas as clients of OpenAI's interface do."""
    summary = Summary()
    calls: dict[int, tuple[str, str]] = {}
    for delta in deltas:
        summary.content += str(delta.get("content", ""))
        summary.reasoning += str(delta.get("reasoning", ""))
        for piece in _list_pieces(delta):
            name, arguments = calls.get(piece["index"], ("", ""))
            name += piece.get("name", "")
            calls[piece["index"]] = (name, arguments + piece.get("arguments", ""))
        kind = next(iter(delta)).replace("calls", "call")
        if summary.order[-1:] != [kind]:
            summary.order.append(kind)
    summary.calls = [(name, normalize(calls[i][1])) for i, (name, _) in sorted(calls.items())]
    return summary


def _list_pieces(delta: Delta) -> list[Mapping]:
    pieces = delta.get("calls", [])
    assert isinstance(pieces, list)
    return pieces


def normalize(arguments: str) -> str:
    """Writes JSON in one way; text that is not JSON stays as it is."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except ValueError:
        return arguments
