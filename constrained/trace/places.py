"""Which part of its turn each token is in: reasoning, content, or a value of a call's arguments."""

import codecs
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from grammars.parse.parser import Parser
from grammars.schema.subschemas import point_to
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
    """A part of a turn."""

    REASONING = "reasoning"
    CONTENT = "content"
    ARGUMENTS = "arguments"
    STRUCTURE = "structure"
    """What stands around the others: markers, names of tools, separators, white space."""


@dataclass(frozen=True)
class TokenPlace:
    """The place of a token.

    Args:
        part: of the turn.
        call: the number of the call, from 0; None: it is in no call.
        pointer: JSON pointer into the arguments or the answer, to the value that the token ends
            in; "" is the whole.
    """

    part: TracedPart
    call: int | None = None
    pointer: str = ""


def find_places(parser: Parser, texts: Sequence[bytes], *, is_json: bool) -> Iterator[TokenPlace]:
    """The place of each token.

    Args:
        parser: of the turn, nothing of which it has read but the text in front of the tokens.
        texts: what the tokens spell.
        is_json: content is a JSON value.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pointers = JsonPath()
    call: int | None = None
    for data in texts:
        text = decoder.decode(data)
        events: Sequence[Event] = parser.feed(text) if text else ()
        place = TokenPlace(
            TracedPart.REASONING if parser.is_reasoning else TracedPart.STRUCTURE, call
        )
        for event in events:
            match event:
                case ReasoningDelta():
                    place = TokenPlace(TracedPart.REASONING)
                case ContentDelta(text) if is_json:
                    pointers.feed(text)
                    place = TokenPlace(TracedPart.CONTENT, pointer=pointers.pointer)
                case ContentDelta():
                    place = TokenPlace(TracedPart.CONTENT)
                case CallOpened(index, _):
                    call = index
                    pointers = JsonPath()
                    place = TokenPlace(TracedPart.STRUCTURE, call)
                case ArgumentsDelta(index, text):
                    pointers.feed(text)
                    place = TokenPlace(TracedPart.ARGUMENTS, index, pointers.pointer)
                case CallRead() | CallCut():
                    call = None
        yield place


class JsonPath:
    """Follows the text of a JSON value as it comes, and says where in the value it is."""

    def __init__(self) -> None:
        self._steps: list[str | int] = []  # of the containers and keys that are open
        self._is_list: list[bool] = []  # for each open container
        self._has_key: list[bool] = []  # for each open container: a step of its own is on the path
        self._key = ""  # the string under way, as it is written
        self._is_key_next = False
        self._in_string = False
        self._is_escaped = False

    @property
    def pointer(self) -> str:
        """JSON pointer to the value that the text ends in, or has just ended."""
        return point_to(self._steps)

    def feed(self, text: str) -> None:
        """More of the text."""
        for char in text:
            self._step(char)

    def _step(self, char: str) -> None:
        if self._in_string:
            self._read_string(char)
        elif char == '"':
            self._in_string = True
            self._key = char
        elif char in "{[":
            self._open(is_list=char == "[")
        elif char in "]}":
            self._close()
        elif char == "," and self._is_list:
            self._go_on()

    def _open(self, *, is_list: bool) -> None:
        self._is_list.append(is_list)
        self._has_key.append(is_list)
        if is_list:
            self._steps.append(0)
        self._is_key_next = not is_list

    def _close(self) -> None:
        if not self._is_list:
            return
        self._is_list.pop()
        if self._has_key.pop():
            self._steps.pop()
        self._is_key_next = False

    def _go_on(self) -> None:
        if self._is_list[-1]:
            index = self._steps[-1]
            assert isinstance(index, int)
            self._steps[-1] = index + 1
            return
        if self._has_key[-1]:
            self._steps.pop()
            self._has_key[-1] = False
        self._is_key_next = True

    def _read_string(self, char: str) -> None:
        self._key += char
        if self._is_escaped:
            self._is_escaped = False
        elif char == "\\":
            self._is_escaped = True
        elif char == '"':
            self._in_string = False
            self._end_string()

    def _end_string(self) -> None:
        if not self._is_key_next:
            return
        self._is_key_next = False
        self._steps.append(_read_key(self._key))
        self._has_key[-1] = True


def _read_key(spelled: str) -> str:
    """The key that a JSON string spells; one that is no JSON stays as it is written."""
    try:
        return str(json.loads(spelled, strict=False))
    except ValueError:
        return spelled[1:-1]
