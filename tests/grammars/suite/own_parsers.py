"""Small parsers of Hermes calls, in the forms that `constrained suite --parser` accepts."""

import json
import re
from types import SimpleNamespace
from typing import Any

CALL = re.compile(r"<tool_call>\n(.*)\n</tool_call>")
TYPES = {"integer": int, "number": float}


def parse_calls(text: str) -> list[dict[str, Any]]:
    """Returns calls alone, in OpenAI's form; a value with a tag in it is no fault: it is JSON on
    one line."""
    return [{"type": "function", "function": json.loads(call)} for call in CALL.findall(text)]


def parse_message(text: str, tools: list[dict[str, Any]]) -> SimpleNamespace:
    """Returns an object with content and calls of offered tools."""
    names = [tool["function"]["name"] for tool in tools]
    calls = [call["function"] for call in parse_calls(text)]
    offered = [SimpleNamespace(**call) for call in calls if call["name"] in names]
    return SimpleNamespace(content=CALL.sub("", text).strip(), tool_calls=offered)


def parse_as_text(text: str) -> dict[str, Any]:
    """Reads numbers as text, which is a fault."""
    calls = [json.loads(call, parse_int=str, parse_float=str) for call in CALL.findall(text)]
    return {"content": CALL.sub("", text).strip(), "calls": calls}


def parse_mine(text: str) -> list[dict[str, Any]]:
    """Reads calls in the format that the page on testing parsers describes."""
    calls: list[dict[str, Any]] = []
    end = 0
    while (start := text.find("<call>", end)) >= 0:
        call, end = json.JSONDecoder().raw_decode(text, start + len("<call>"))
        calls.append({"name": call["tool"], "arguments": call["input"]})
    return calls


class Lines:
    """Reads a stream: a line that it has whole is content or a call."""

    def __init__(self) -> None:
        self._held = ""
        self._count = 0

    def feed(self, chunk: str) -> list[dict[str, Any]]:
        """Returns deltas for whole lines."""
        *lines, self._held = (self._held + chunk).split("\n")
        return [delta for line in lines for delta in self._read(line + "\n")]

    def finish(self) -> list[dict[str, Any]]:
        """Returns what is left."""
        return self._read(self._held)

    def _read(self, line: str) -> list[dict[str, Any]]:
        if line.strip() in ("<tool_call>", "</tool_call>"):
            return []
        if not line.startswith('{"name": '):
            return [{"content": line}]
        call = json.loads(line)
        self._count += 1
        arguments = json.dumps(call["arguments"])
        index = self._count - 1
        half = len(arguments) // 2
        first = {"index": index, "function": {"name": call["name"], "arguments": arguments[:half]}}
        rest = {"index": index, "function": {"arguments": arguments[half:]}}
        return [{"tool_calls": [first]}, {"tool_calls": [rest]}]


class OneChunk(Lines):
    """Forgets what it holds when a chunk has no line end, which is a fault."""

    def feed(self, chunk: str) -> list[dict[str, Any]]:
        """Returns deltas for whole lines of this chunk."""
        self._held = self._held if "\n" in chunk else ""
        return super().feed(chunk)

    def parse(self, text: str) -> dict[str, Any]:
        """Reads a whole text."""
        return parse_as_text(text) | {"calls": parse_calls(text)}
