"""Streaming parsers, each with one fault; the sentence that describes it is the docstring."""

import re
from collections.abc import Sequence

from grammars.turn import Tool
from tests.suite_mutants.hermes_parsers import END_THINK, OPENER, Call, Delta, HermesStream
from tests.suite_mutants.mistral_parsers import MistralStream


class LeaksCutOpener(HermesStream):
    """The beginning of an opener that is cut in two is emitted as text, and the call with it."""

    def count_held(self, tag: str) -> int:
        return 0 if tag == OPENER else super().count_held(tag)


class LosesEnd(HermesStream):
    """What was held back, since it could begin a tag, is lost at the end of the stream."""

    def close(self) -> list[Delta]:
        return []


class LosesTextAfterBoundary(HermesStream):
    """What follows a call in the same chunk is lost, be it text or another call."""

    def write_calls(self, calls: list[Call]) -> list[Delta]:
        self.buffer = ""
        return super().write_calls(calls)


class LosesThoughtBeforeEnd(HermesStream):
    """Reasoning in the same chunk as the end of the thought is lost."""

    def read_thought(self) -> list[Delta] | None:
        end = self.buffer.find(END_THINK)
        if end >= 0:
            self.take(end)
        return super().read_thought()


class NumbersCallsByTool(HermesStream):
    """The index of a call is the place of its tool in the request: two calls of a tool have the
    same one."""

    def write_calls(self, calls: list[Call]) -> list[Delta]:
        names = list(self.reader.schemas)
        self.index = names.index(calls[0][0]) if calls[0][0] in names else 0
        return super().write_calls(calls)


class RestartsIndex(HermesStream):
    """The index starts again at 0 after text between two calls."""

    def write(self, kind: str, text: str) -> list[Delta]:
        if kind == "content" and text:
            self.index = 0
        return super().write(kind, text)


class RepeatsArguments(HermesStream):
    """The arguments of a call are emitted a second time when it ends."""

    def write_calls(self, calls: list[Call]) -> list[Delta]:
        deltas = super().write_calls(calls)
        return [*deltas, deltas[-1]]


class AppendsToFirstCall(HermesStream):
    """The arguments of each call go to the first call."""

    def write_calls(self, calls: list[Call]) -> list[Delta]:
        opened, arguments = super().write_calls(calls)
        match arguments:
            case {"calls": [{"arguments": written}]}:
                return [opened, {"calls": [{"index": 0, "arguments": written}]}]
            case _:
                raise AssertionError(arguments)


class EmitsCallsFirst(HermesStream):
    """If a chunk has text and a call after it, the call is emitted first."""

    def feed(self, text: str) -> list[Delta]:
        return sorted(super().feed(text), key=lambda delta: "calls" not in delta)


class SplitsCharacters(HermesStream):
    """Chunks are decoded in blocks of eight bytes: a character across two blocks is damaged."""

    def feed(self, text: str) -> list[Delta]:
        data = text.encode()
        blocks = [data[i : i + 8] for i in range(0, len(data), 8)]
        return super().feed("".join(block.decode(errors="replace") for block in blocks))


class EndsAtEmptyChunk(HermesStream):
    """An empty chunk is taken for the end of the stream, so that nothing is held back after it."""

    def feed(self, text: str) -> list[Delta]:
        self.is_over = self.is_over or not text
        return super().feed(text)


class OmitsEmptyArguments(HermesStream):
    """No arguments are emitted for a call without arguments: they are no JSON object."""

    def write_calls(self, calls: list[Call]) -> list[Delta]:
        deltas = super().write_calls(calls)
        return deltas if calls[0][1] else deltas[:1]


class LosesLastBrace(MistralStream):
    """The last brace is lost if the chunk that ends the arguments does not have a quote before
    it: after a number."""

    def write_arguments(self, piece: str) -> list[Delta]:
        is_last = self.depth == 0 and '"}' not in piece
        return super().write_arguments(piece[:-1] if is_last else piece)


class TakesMarkerAsArguments(MistralStream):
    """If a chunk ends inside of [ARGS] or after it, the marker is taken for arguments."""

    def read_text(self) -> list[Delta] | None:
        header = re.fullmatch(r"\[TOOL_CALLS\]([^\[\]\s]+)\[[A-Z]*\]?", self.buffer)
        if header is None:
            return super().read_text()
        self.step = self.read_arguments
        self.take(header.end(1))
        return self.open_call(header[1])


class CountsBracesInStrings(MistralStream):
    """Braces in strings are counted: the arguments end too early, or never."""

    def read_character(self, character: str) -> None:
        self.in_string = False
        super().read_character(character)


class ForgetsEscapeAtCut(MistralStream):
    """If a chunk ends after a backslash, the quote in the next one is taken for the string's
    end."""

    def feed(self, text: str) -> list[Delta]:
        self.is_escaped = False
        return super().feed(text)


class RepeatsEarlierPieces(MistralStream):
    """Each delta has all of the arguments so far, rather than what is new."""

    def __init__(self, tools: Sequence[Tool]):
        super().__init__(tools)
        self.written = ""

    def open_call(self, name: str) -> list[Delta]:
        self.written = ""
        return super().open_call(name)

    def write_arguments(self, piece: str) -> list[Delta]:
        self.written += piece
        return super().write_arguments(self.written) if piece else []
