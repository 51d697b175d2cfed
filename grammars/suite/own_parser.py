"""One's own parser in Python: a function that reads a whole text, or a class that reads chunks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from grammars.schema.json_values import JsonObject
from grammars.suite.answers import write_answer, write_deltas
from grammars.suite.parser_output import AskedParser, ParserRefusal
from grammars.suite.reading import Claims, Factory
from grammars.turn import Tool

_PROBE = "zorn"


def find_parser(name: str) -> Callable[..., Any]:
    """Returns a function or a class, such as `my_package.parser:parse`."""
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


class OwnParser:
    """A parser, in one of two forms.

    A function gets a text, or a text and the tools in OpenAI's form. A class is made for each text,
    with the tools if it takes an argument; it gets chunks by `feed(chunk)` and the end by
    `finish()` or `close()`, and a whole text by `parse(text)`, if it has that. `write_answer` and
    `write_deltas` say what they return.
    """

    def __init__(self, parser: Callable[..., Any]):
        self._parser = parser
        self.streams = isinstance(parser, type)
        self.reads_whole = not self.streams or hasattr(parser, "parse")
        self._takes_tools = _takes_tools(parser, position=0 if self.streams else 1)

    def greet(self, _: Sequence[str] = ()) -> Sequence[str]:
        """Returns the abilities that the form of its answers shows."""
        names = ["stream"] if self.streams else []
        try:
            shown = self.read([], _PROBE) if self.reads_whole else {"content": ""}
        except Exception:  # a text without calls is an error of parsers that return calls alone
            shown = {}
        names += [name for name in ("content", "reasoning") if name in shown]
        return (*names, "types")

    def _begin(self, tools: list[Any]) -> Any:
        return self._parser(tools) if self._takes_tools else self._parser()

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        if not self.reads_whole:
            return {"deltas": list(self.stream(tools, [text]))}
        if self.streams:
            return write_answer(self._begin(tools).parse(text))
        given = [text, tools] if self._takes_tools else [text]
        return write_answer(self._parser(*given))

    def stream(self, tools: list[Any], chunks: Sequence[str]) -> Iterator[dict[str, Any]]:
        parser = self._begin(tools)
        for chunk in chunks:
            yield from write_deltas(parser.feed(chunk))
        yield from write_deltas(parser.finish() if hasattr(parser, "finish") else parser.close())


def _takes_tools(function: Callable[..., Any], *, position: int) -> bool:
    """Returns whether a parameter is called `tools`, or the one at this position is needed."""
    parameters = signature(function).parameters
    if "tools" in parameters:
        return True
    needed = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is Parameter.empty
    ]
    return len(needed) > position


def as_factory(parser: Callable[..., Any]) -> tuple[Factory, Claims]:
    """Returns one's own parser as the suite calls it, and the claims that its answers show."""
    own = OwnParser(parser)
    abilities = own.greet()
    claims = Claims(
        reasoning="reasoning" in abilities,
        content="content" in abilities,
        space=False,
        damage=False,
        exact=False,
    )

    def make(tools: Sequence[Tool]) -> Any:
        functions = [{"name": tool.name, "parameters": tool.schema.source} for tool in tools]
        written = [{"type": "function", "function": function} for function in functions]

        def stream(tools: list[Any], chunks: Sequence[str]) -> JsonObject:
            return {"deltas": list(own.stream(tools, chunks))}

        asked = AskedParser(partial(_ask, own.read, written), partial(_ask, stream, written))
        return asked if own.streams else asked.read

    return make, claims


def _ask(function: Callable[..., JsonObject], tools: list[Any], text: Any) -> JsonObject:
    """Calls a parser. An error is an answer, as behind the pipe: damaged text may have one."""
    try:
        return function(tools, text)
    except Exception as e:
        raise ParserRefusal(f"{type(e).__name__}: {e}") from e
