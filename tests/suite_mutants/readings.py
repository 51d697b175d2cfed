"""Runs a parser on a text, and adds up what it says: for tests that do not know the suite."""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grammars.suite import Reading
from grammars.turn import Tool
from tests.suite_mutants.hermes_parsers import Delta, HermesStream, HermesText
from tests.suite_mutants.mistral_parsers import MistralStream

Parser = HermesText | HermesStream | MistralStream
MakeParser = Callable[[Sequence[Tool]], Parser]


@dataclass(frozen=True)
class Summary:
    """A turn as a client sees it.

    Args:
        content: the text.
        reasoning: the text of the reasoning.
        calls: name and arguments as JSON text of each call, in the order of their index.
        order: what came in turn, as "content call content"; "" for a whole text.
    """

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    order: str = ""


def summarize(make: MakeParser, tools: Sequence[Tool], chunks: Sequence[str]) -> Summary:
    """Reads a text in these chunks; a parser of whole texts reads all of them at once."""
    parser = make(tools)
    if isinstance(parser, HermesText):
        return summarize_reading(parser("".join(chunks)))
    deltas = [delta for chunk in chunks for delta in parser.feed(chunk)]
    return add_up([*deltas, *parser.close()])


def summarize_reading(reading: Reading) -> Summary:
    """Writes the arguments of all calls as JSON."""
    calls: list[tuple[str, str]] = []
    for call in reading.calls:
        assert isinstance(call, tuple)
        name, arguments = call
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append((str(name), normalize(written)))
    return Summary(reading.content, reading.reasoning, tuple(calls))


def add_up(deltas: Sequence[Delta]) -> Summary:
    """Adds up deltas as clients of OpenAI's interface do."""
    content = reasoning = ""
    names: dict[int, str] = defaultdict(str)
    arguments: dict[int, str] = defaultdict(str)
    order: list[str] = []
    for delta in deltas:
        match delta:
            case {"content": str(text)}:
                content += text
                order.append("content")
            case {"reasoning": str(text)}:
                reasoning += text
                order.append("reasoning")
            case {"calls": [{"index": int(index), "name": str(name)}]}:
                names[index] += name
                order.append("call")
            case {"calls": [{"index": int(index), "arguments": str(piece)}]}:
                arguments[index] += piece
            case _:
                raise AssertionError(f"not a delta: {delta}")
    indexes = sorted({*names, *arguments})
    calls = tuple((names[index], normalize(arguments[index])) for index in indexes)
    kinds = [kind for kind, _ in itertools.groupby(order)]
    return Summary(content, reasoning, calls, " ".join(kinds))


def normalize(arguments: str) -> str:
    """Writes JSON in one way; text that is not JSON stays as it is."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except ValueError:
        return arguments
