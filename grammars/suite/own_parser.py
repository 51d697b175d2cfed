"""One's own parser in Python: a function that reads a whole text, or a class that reads chunks."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from grammars.suite.answers import write_answer, write_deltas
from grammars.suite.parser_output import ParserRefusal, Reading
from grammars.suite.reading import Claims, Factory
from grammars.turn import Tool

_PROBE = "zorn"


def find_parser(name: str) -> Callable[..., Any]:
    """Returns a function or a class, such as `my_package.parser:parse`.

    Raises:
        ImportError, AttributeError: it is not there.
    """
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

    Args:
        parser: the function or the class.
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

    def begin(self, tools: list[Any]) -> Any:
        """Returns an object of the class."""
        return self._parser(tools) if self._takes_tools else self._parser()

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        if not self.reads_whole:
            return {"deltas": list(self.stream(tools, [text]))}
        if self.streams:
            return write_answer(self.begin(tools).parse(text))
        given = [text, tools] if self._takes_tools else [text]
        return write_answer(self._parser(*given))

    def stream(self, tools: list[Any], chunks: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
        parser = self.begin(tools)
        for chunk in chunks:
            yield from write_deltas(parser.feed(chunk))
        yield from write_deltas(finish(parser))


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


def finish(parser: Any) -> Any:
    """Ends the text of a streaming parser, and returns what it reports."""
    return parser.finish() if hasattr(parser, "finish") else parser.close()


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
        if not own.streams:
            return partial(_read, own, written)
        return _WholeFed(own, written) if own.reads_whole else _Fed(own, written)

    return make, claims


class _Fed:
    """A parser that gets chunks."""

    def __init__(self, own: OwnParser, tools: list[Any]):
        self._own, self._tools = own, tools
        with _refusals():
            self._parser = own.begin(tools)

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Takes a chunk."""
        with _refusals():
            return list(write_deltas(self._parser.feed(text)))

    def close(self) -> list[dict[str, Any]]:
        """Ends the text."""
        with _refusals():
            return list(write_deltas(finish(self._parser)))


class _WholeFed(_Fed):
    """A parser that gets chunks, or a whole text."""

    def read(self, text: str) -> Reading:
        """Reads a whole text."""
        return _read(self._own, self._tools, text)


def _read(own: OwnParser, tools: list[Any], text: str) -> Reading:
    with _refusals():
        answer = own.read(tools, text)
    calls = [(call["name"], call["arguments"]) for call in answer["calls"]]
    return Reading(answer.get("content") or "", answer.get("reasoning") or "", calls)


@contextmanager
def _refusals() -> Generator[None]:
    """An error is what a server would answer, as behind the pipe: damaged text may have one."""
    try:
        yield
    except Exception as e:
        raise ParserRefusal(f"{type(e).__name__}: {e}") from e
