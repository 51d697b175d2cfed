"""Two correct parsers: of a stream in Mistral's format, which emits arguments while they are
written, and of whole texts in that of Mistral Nemo."""

import re
from collections.abc import Sequence

from grammars.turn import Tool
from tests.suite_mutants.hermes_parsers import (
    Call,
    Delta,
    HermesText,
    SteppedStream,
    count_held,
    decode,
)

TOOL_CALLS, ARGS = "[TOOL_CALLS]", "[ARGS]"
THINK, END_THINK = "[THINK]", "[/THINK]"
HEADER = re.compile(r"\[TOOL_CALLS\]\s*([^\[\]\s]+)\s*\[ARGS\]\s*(?=\{)")


class NemoText(HermesText):
    """Reads whole texts: calls are a JSON list."""

    opener = TOOL_CALLS

    def split_thought(self, text: str) -> tuple[str, str]:
        """The format has no thoughts."""
        return "", text

    def trim_before(self, text: str, calls: list[Call]) -> str:
        """The format writes nothing between content and a call."""
        return text if text.strip() else ""

    def read_calls(self, text: str, start: int) -> tuple[list[Call], int] | None:
        """Returns the calls of the list after `start`, and where it ends."""
        found = decode(text, start)
        match found:
            case ([_, *_] as items, end):
                calls = [self.read_call(item) for item in items]
            case _:
                return None
        if None in calls:
            return None
        return [call for call in calls if call is not None], end


class MistralStream(SteppedStream):
    """Arguments are emitted as they are written."""

    def __init__(self, tools: Sequence[Tool]):
        super().__init__()
        self.depth = 0  # of the arguments: open braces and brackets
        self.in_string = False
        self.is_escaped = False  # a backslash was the last character of the string

    def read_start(self) -> list[Delta] | None:
        """Looks for a thought at the beginning."""
        if self.buffer.startswith(THINK):
            self.take(len(THINK))
            self.step = self.read_thought
            return []
        if THINK.startswith(self.buffer) and not self.is_over:
            return None
        self.step = self.read_text
        return []

    def read_thought(self) -> list[Delta] | None:
        """Reads reasoning up to its end."""
        end = self.buffer.find(END_THINK)
        if end >= 0:
            thought = self.take(end)
            self.take(len(END_THINK))
            self.step = self.read_text
            return self.write("reasoning", thought)
        end = len(self.buffer) - self.count_held(END_THINK)
        return self.write("reasoning", self.take(end)) or None

    def count_held(self, tag: str) -> int:
        """Returns how many characters may be the beginning of the tag."""
        return 0 if self.is_over else count_held(self.buffer, tag)

    def read_text(self) -> list[Delta] | None:
        """Reads content, and the beginnings of calls."""
        start = self.buffer.find(TOOL_CALLS)
        if start < 0:
            return self.write_content(len(self.buffer) - self.count_held(TOOL_CALLS))
        header = HEADER.match(self.buffer, start)
        if header is not None:
            before = self.take(start)
            if self.is_blank and not before.strip():
                before = ""
            self.take(header.end() - start)
            self.step = self.read_arguments
            return self.write("content", before) + self.open_call(header[1])
        if self.is_over:
            return self.write_content(start + len(TOOL_CALLS))
        return None

    def write_content(self, end: int) -> list[Delta] | None:
        """Emits content. White space is no content next to a call, and perhaps before one."""
        may_be = self.index > 0 or not self.is_over
        is_space = may_be and self.is_blank and not self.buffer[:end].strip()
        if not end or is_space:
            return None
        self.is_blank = False
        return self.write("content", self.take(end))

    def open_call(self, name: str) -> list[Delta]:
        """Returns the delta with which a call begins."""
        return [{"calls": [{"index": self.index, "name": name}]}]

    def read_arguments(self) -> list[Delta] | None:
        """Reads arguments up to their last brace."""
        end = self.find_end(self.buffer)
        piece = self.take(len(self.buffer) if end is None else end)
        deltas = self.write_arguments(piece)
        if end is not None:
            self.end_call()
        return deltas or None

    def end_call(self) -> None:
        """Goes on with the text after a call."""
        self.index += 1
        self.is_blank = True
        self.step = self.read_text

    def write_arguments(self, piece: str) -> list[Delta]:
        """Returns the delta of a piece of arguments."""
        return [{"calls": [{"index": self.index, "arguments": piece}]}] if piece else []

    def find_end(self, text: str) -> int | None:
        """Returns where the arguments end in the next piece of them."""
        for place, character in enumerate(text):
            self.read_character(character)
            if self.depth == 0:
                return place + 1
        return None

    def read_character(self, character: str) -> None:
        """Keeps account of strings and braces."""
        if self.is_escaped:
            self.is_escaped = False
        elif self.in_string and character == "\\":
            self.is_escaped = True
        elif character == '"':
            self.in_string = not self.in_string
        elif character in "{[" and not self.in_string:
            self.depth += 1
        elif character in "}]" and not self.in_string:
            self.depth -= 1

    def write(self, kind: str, text: str) -> list[Delta]:
        """Returns the delta of a text."""
        return [{kind: text}] if text else []
