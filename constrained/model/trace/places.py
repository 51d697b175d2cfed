"""Finds the part of its turn that each token is in: reasoning, content, or a value in a call."""

import codecs
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from grammars.parse.parser import Parser
from grammars.schema.pointers import point_to
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
)


class TracedPart(StrEnum):
    REASONING = "reasoning"
    CONTENT = "content"
    TOOL_NAME = "tool name"
    ARGUMENTS = "arguments"
    STRUCTURE = "structure"
    """Text between the others: markers, separators and white space."""
    END = "end of turn"


@dataclass(frozen=True)
class TokenPlace:
    """The place of a token: in no call (None) or which one, from 0; JSON pointer into its arguments
    or the answer, to the value in which the token ends."""

    part: TracedPart
    call: int | None = None
    pointer: str = ""


END = TokenPlace(TracedPart.END)


def decode_pieces(texts: Sequence[bytes]) -> list[str]:
    """Decodes the text of each token. Tokens may end inside a character; such a character belongs
    to the token with its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(data) for data in texts]


def find_places(
    parser: Parser, pieces: Sequence[str], *, calls: Sequence[str] = (), is_json: bool
) -> list[TokenPlace]:
    """Finds the place of each token. The parser has read the text before them; `calls` are names,
    since one in another envelope than the turn's own may have been kept there."""
    finder = _PlaceFinder(parser, pieces, calls, is_json=is_json)
    for piece in pieces:
        finder.read(piece)
    return finder.places


class _PlaceFinder:
    """Finds places token by token. For some tokens, such as those of a name, the parser's event
    only comes after them: these silent tokens get their places then."""

    def __init__(
        self, parser: Parser, pieces: Sequence[str], calls: Sequence[str], *, is_json: bool
    ):
        self.places: list[TokenPlace] = []
        self._parser = parser
        self._pieces = pieces
        self._calls = calls
        self._is_json = is_json
        self._path = JsonPath()
        self._call: int | None = None
        self._silent = 0  # tokens since the last event, including the current one

    def read(self, piece: str) -> None:
        events: list[Event] = self._parser.feed(piece) if piece else []
        while (found := self._parser.foreign_call) is not None:
            is_kept = found.format is not None and found.tool in self._calls
            events += self._parser.go_on(found) if is_kept else self._parser.decline()
        part = TracedPart.REASONING if self._parser.is_reasoning else TracedPart.STRUCTURE
        self.places.append(TokenPlace(part, self._call))
        self._silent += 1
        for event in events:
            place = self._take(event)
            if place is not None:
                self.places[-1] = place
        if events:
            self._silent = 0

    def _take(self, event: Event) -> TokenPlace | None:
        """Returns the place of the token of an event, and sets those of silent ones before."""
        match event:
            case ReasoningDelta():
                return TokenPlace(TracedPart.REASONING)
            case ContentDelta(text) if self._is_json:
                self._path.feed(text)
                return TokenPlace(TracedPart.CONTENT, pointer=self._path.pointer)
            case ContentDelta():
                return TokenPlace(TracedPart.CONTENT)
            case CallOpened(index, name):
                self._call = index
                self._path = JsonPath()
                return self._place_name(index, name)
            case ArgumentsDelta(index, text):
                inside = self._path.feed(text)
                self._place_silent(TokenPlace(TracedPart.ARGUMENTS, index, inside))
                return TokenPlace(TracedPart.ARGUMENTS, index, self._path.pointer)
            case CallRead() | CallCut():
                self._call = None
                return None

    def _place_silent(self, place: TokenPlace) -> None:
        if not place.pointer:
            return
        for number in range(len(self.places) - self._silent, len(self.places) - 1):
            if self.places[number] == TokenPlace(TracedPart.STRUCTURE, place.call):
                self.places[number] = place

    def _place_name(self, index: int, name: str) -> TokenPlace:
        structure = TokenPlace(TracedPart.STRUCTURE, index)
        first = len(self.places) - self._silent
        pieces = self._pieces[first : len(self.places)]
        for number in range(first, len(self.places)):
            if self.places[number].part is TracedPart.STRUCTURE:
                self.places[number] = structure
        begin = "".join(pieces).rfind(name)
        if begin < 0:  # the name is spelled in another way
            return structure
        offset = 0
        for number, piece in enumerate(pieces, first):
            is_name = offset < begin + len(name) and offset + len(piece) > begin
            offset += len(piece)
            if is_name:
                self.places[number] = replace(structure, part=TracedPart.TOOL_NAME)
        return self.places[-1]


class JsonPath:
    """Reads the text of a JSON value piece by piece, and finds the JSON pointer to each piece."""

    def __init__(self) -> None:
        # For each open container: the index in a list; the key in an object, None before it.
        self._steps: list[int | str | None] = []
        self._string = ""  # the text of the current string so far
        self._in_string = False
        self._is_escaped = False

    @property
    def pointer(self) -> str:
        """The JSON pointer to the value in which the text ends, or which it has just ended."""
        return point_to([step for step in self._steps if step is not None])

    def feed(self, text: str) -> str:
        """Reads more of the text. Returns the pointer to the smallest value that contains all
        values in it; "" is the whole."""
        last = self.pointer
        goes_on = self._in_string or text.lstrip()[:1] not in (",", "}", "]")
        inside = last if last and goes_on else None
        for char in text:
            self._step(char)
            pointer = self.pointer
            if pointer and pointer != last:
                inside = pointer if inside is None else _find_common(inside, pointer)
            last = pointer
        return self.pointer if inside is None else inside

    def _step(self, char: str) -> None:
        if self._in_string:
            self._read_string(char)
        elif char == '"':
            self._in_string = True
            self._string = char
        elif char in "{[":
            self._steps.append(0 if char == "[" else None)
        elif char in "]}" and self._steps:
            self._steps.pop()
        elif char == "," and self._steps:
            step = self._steps[-1]
            self._steps[-1] = step + 1 if isinstance(step, int) else None

    def _read_string(self, char: str) -> None:
        self._string += char
        if self._is_escaped:
            self._is_escaped = False
        elif char == "\\":
            self._is_escaped = True
        elif char == '"':
            self._in_string = False
            if self._steps and self._steps[-1] is None:
                self._steps[-1] = _read_key(self._string)


def _find_common(first: str, second: str) -> str:
    common: list[str] = []
    for one, other in zip(first.split("/"), second.split("/"), strict=False):
        if one != other:
            break
        common.append(one)
    return "/".join(common)


def _read_key(spelled: str) -> str:
    try:
        return str(json.loads(spelled, strict=False))
    except ValueError:
        return spelled[1:-1]
