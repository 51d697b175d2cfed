"""Two correct parsers of Hermes JSON, simple rather than fast: of whole texts, and of a stream."""

import json
from collections.abc import Sequence

from grammars.suite import Reading
from grammars.turn import Tool

Delta = dict[str, object]
Call = tuple[str, object]

OPENER, CLOSER = "<tool_call>", "</tool_call>"
THINK, END_THINK = "<think>", "</think>"


def decode(text: str, start: int) -> tuple[object, int] | None:
    """Returns the JSON value that begins after white space at `start`, and where it ends."""
    try:
        return json.JSONDecoder().raw_decode(text, skip_space(text, start))
    except (ValueError, RecursionError):
        return None


def skip_space(text: str, start: int) -> int:
    """Returns where the white space of JSON that begins at `start` ends."""
    while text[start : start + 1] in (" ", "\t", "\n", "\r"):
        start += 1
    return start


class HermesText:
    """Reads whole texts. A call that cannot be read is content."""

    opener = OPENER

    def __init__(self, tools: Sequence[Tool]):
        self.schemas = {tool.name: tool.schema.source for tool in tools}

    def __call__(self, text: str) -> Reading:
        """Reads a turn."""
        reasoning, answer = self.split_thought(text)
        content, calls = self.split_calls(answer)
        return Reading(content=content, reasoning=reasoning, calls=calls)

    def split_thought(self, text: str) -> tuple[str, str]:
        """Returns the reasoning at the beginning, and the text after it."""
        if not text.startswith(THINK):
            return "", text
        thought, _, answer = text.removeprefix(THINK).partition(END_THINK)
        return self.trim_thought(thought), answer.removeprefix("\n").removeprefix("\n")

    def trim_thought(self, thought: str) -> str:
        """Removes the line breaks that the format writes around a thought."""
        return thought.removeprefix("\n").removesuffix("\n")

    def split_calls(self, text: str) -> tuple[str, list[Call]]:
        """Returns the text around the calls, and the calls."""
        content = ""
        calls: list[Call] = []
        begin = position = 0  # of the text since the last call, and of the search
        while (start := text.find(self.opener, position)) >= 0:
            found = self.read_calls(text, start + len(self.opener))
            if found is None:
                position = start + len(self.opener)
                continue
            content += self.trim_before(text[begin:start], calls)
            calls += found[0]
            begin = position = found[1]
        return content + self.trim_after(text[begin:], calls), calls

    def trim_after(self, text: str, calls: list[Call]) -> str:
        """White space after the last call is not content."""
        return "" if calls and not text.strip() else text

    def trim_before(self, text: str, calls: list[Call]) -> str:
        """Removes what the format writes between content and a call."""
        return text.removesuffix("\n") if text.strip() else ""

    def read_calls(self, text: str, start: int) -> tuple[list[Call], int] | None:
        """Returns the call whose opener ends at `start`, and where it ends."""
        found = decode(text, start)
        if found is None:
            return None
        end = skip_space(text, found[1])
        call = self.read_call(found[0])
        if call is None or not text.startswith(CLOSER, end):
            return None
        return [call], end + len(CLOSER)

    def read_call(self, call: object) -> Call | None:
        """Returns name and arguments."""
        match call:
            case {"name": str(name), "arguments": dict(arguments)}:
                return name, arguments
            case _:
                return None


def count_held(text: str, tag: str) -> int:
    """Returns how many characters at the end of the text may be the beginning of the tag."""
    longest = min(len(text), len(tag) - 1)
    return next(n for n in range(longest, -1, -1) if text.endswith(tag[:n]))


class SteppedStream:
    """Reads a text in pieces, step by step."""

    def __init__(self) -> None:
        self.buffer = ""
        self.step = self.read_start
        self.index = 0
        self.is_blank = True  # nothing but white space since the last call
        self.is_over = False

    def feed(self, text: str) -> list[Delta]:
        """Reads the next piece."""
        self.buffer += text
        return self.drain()

    def close(self) -> list[Delta]:
        """Reads what is left at the end."""
        self.is_over = True
        return self.drain()

    def drain(self) -> list[Delta]:
        """Reads as far as the buffer allows. A step returns None where it needs more text."""
        deltas: list[Delta] = []
        while (found := self.step()) is not None:
            deltas += found
        return deltas

    def take(self, end: int) -> str:
        """Removes characters from the front of the buffer."""
        taken, self.buffer = self.buffer[:end], self.buffer[end:]
        return taken

    def read_start(self) -> list[Delta] | None:
        """Reads the beginning of a turn."""
        raise NotImplementedError


class HermesStream(SteppedStream):
    """A call is emitted when it is complete."""

    def __init__(self, tools: Sequence[Tool]):
        super().__init__()
        self.reader = HermesText(tools)

    def needs_more(self, text: str) -> bool:
        """True if the buffer may be the beginning of a longer text, or of this one."""
        return not self.is_over and text.startswith(self.buffer)

    def read_start(self) -> list[Delta] | None:
        """Looks for a thought at the beginning."""
        if self.needs_more(THINK + "\n") and self.buffer != THINK + "\n":
            return None
        if self.buffer.startswith(THINK):
            self.buffer = self.buffer.removeprefix(THINK).removeprefix("\n")
            self.step = self.read_thought
        else:
            self.step = self.read_text
        return []

    def read_thought(self) -> list[Delta] | None:
        """Reads reasoning up to its end."""
        end = self.buffer.find(END_THINK)
        if end >= 0:
            thought = self.take(end).removesuffix("\n")
            self.take(len(END_THINK))
            self.step = self.read_gap
            return self.write("reasoning", thought)
        return self.write_held("reasoning", END_THINK)

    def read_gap(self) -> list[Delta] | None:
        """Reads the line breaks after a thought."""
        if self.needs_more("\n\n") and self.buffer != "\n\n":
            return None
        self.buffer = self.buffer.removeprefix("\n").removeprefix("\n")
        self.step = self.read_text
        return []

    def read_text(self) -> list[Delta] | None:
        """Reads content and calls."""
        start = self.buffer.find(OPENER)
        if start < 0:
            return self.write_held("content", OPENER)
        found = self.reader.read_calls(self.buffer, start + len(OPENER))
        if found is not None:
            before = self.take(start).removesuffix("\n")
            if self.is_blank and not before.strip():
                before = ""
            self.take(found[1] - start)
            self.is_blank = True
            return self.write("content", before) + self.write_calls(found[0])
        if self.is_over:
            self.is_blank = False
            return self.write("content", self.take(start + len(OPENER)))
        return None

    def write_held(self, kind: str, tag: str) -> list[Delta] | None:
        """Emits the buffer but for what may belong to a tag that follows, or to the line break
        before it."""
        end = len(self.buffer)
        if not self.is_over:
            end -= self.count_held(tag)
            end -= self.buffer.endswith("\n", 0, end)
        if not end or (kind == "content" and self.is_space(end)):
            return None
        if kind == "content":
            self.is_blank = False
        return self.write(kind, self.take(end))

    def count_held(self, tag: str) -> int:
        """Returns how many characters may be the beginning of the tag."""
        return count_held(self.buffer, tag)

    def is_space(self, end: int) -> bool:
        """True if this is white space next to a call, or perhaps before one."""
        may_be = self.index > 0 or not self.is_over
        return may_be and self.is_blank and not self.buffer[:end].strip()

    def write(self, kind: str, text: str) -> list[Delta]:
        """Returns the delta of a text."""
        return [{kind: text}] if text else []

    def write_calls(self, calls: list[Call]) -> list[Delta]:
        """Returns the deltas of calls."""
        deltas: list[Delta] = []
        for name, arguments in calls:
            written = json.dumps(arguments, ensure_ascii=False)
            deltas.append({"calls": [{"index": self.index, "name": name}]})
            deltas.append({"calls": [{"index": self.index, "arguments": written}]})
            self.index += 1
        return deltas
