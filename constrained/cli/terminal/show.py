"""Prints a turn on a terminal while it is generated: reasoning, content and calls."""

import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from constrained.cli.terminal.output import (
    DIM,
    PLAIN,
    Report,
    has_colour,
    make_printable,
    show_progress,
)
from constrained.model.cut_values import advise_limit
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    ReasoningDelta,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from constrained.decode.filters.events import StreamEvent
    from constrained.decode.schedule.streams import Stream
    from constrained.model.reply import Reply

LONG_PROMPT = 512  # tokens that are not in the KV cache


class Screen:
    """Text on a stream, stdout by default, piece by piece; `end_line` ends a line that has text. If
    the stream `is_styled`, reasoning is dimmed."""

    def __init__(self, out: TextIO | None = None):
        self._out = out or sys.stdout
        self._is_inside_line = False
        self._is_dim = False
        self.is_terminal = self._out.isatty()
        self.is_styled = has_colour(self._out)

    def write(self, text: str, *, dim: bool = False) -> None:
        """Writes on; what the stream cannot show is escaped."""
        if not text:
            return
        if dim != self._is_dim and self.is_styled:
            self._out.write(DIM if dim else PLAIN)
            self._is_dim = dim
        self._out.write(make_printable(text, self._out))
        self._out.flush()
        self._is_inside_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Ends the current line, if there is one, and the dimming."""
        if self._is_dim:
            self._out.write(PLAIN)
            self._is_dim = False
        if self._is_inside_line:
            self.write("\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Writes a separate line."""
        self.end_line()
        self.write(text + "\n")


class TurnPrinter:
    """Prints one turn: call `take` with its events, then `finish`. Reasoning and notes go to
    `notes`; None: to the screen if it is a terminal, otherwise to stderr, so that a pipe or a file
    gets only the results."""

    def __init__(self, screen: Screen, notes: Screen | None = None):
        self._screen = screen
        if notes is None:
            notes = screen if screen.is_terminal else Screen(sys.stderr)
        self._notes = notes
        self._part: type | None = None  # the event type of the text that is being written
        self._line_ends = ""  # trailing line ends; they are written if more text follows
        self._arguments = ArgumentsText()
        self._is_open = False

    def take(self, event: "StreamEvent") -> None:
        """Shows an event; how likely tokens were is not shown."""
        match event:
            case ReasoningDelta(text) | ContentDelta(text):
                self._write_text(type(event), text)
            case CallOpened(_, name):
                self._open_call(name)
            case ArgumentsDelta(_, text):
                self._screen.write(self._arguments.feed(text))
            case CallRead(_, call):
                self._close_call(call)
            case CallCut(text):
                self._is_open = False
                self._screen.end_line()
                self._notes.say(f"(cut call, not delivered) {text!r}")
            case _:
                pass

    def finish(self, reply: "Reply") -> None:
        """Ends the last line, and prints notes, for example if the turn did not end by itself."""
        self._end_lines()
        for call in reply.calls:
            if call.truncated:
                text = f"(truncated call) {call.name}: its arguments may be incomplete"
                self._notes.say(text)
                if advice := advise_limit(call.arguments):
                    self._notes.say(f"({advice})")
        for ended in reply.ended_values:
            self._notes.say(f"(ended because it repeated itself) {ended.where}")
        has_ended_content = any(ended.where == "/content" for ended in reply.ended_values)
        if reply.finish_reason == "length" and not has_ended_content:
            text = "(the tokens ran out: raise --max-tokens, or the context with -c)"
            self._notes.say(text)

    def _write_text(self, part: type, text: str) -> None:
        """Reasoning or content, without the line ends around it."""
        is_new = self._part is not part
        if is_new:
            text = text.lstrip("\n")
            self._line_ends = ""
        text = self._line_ends + text
        shown = text.rstrip("\n")
        self._line_ends = text[len(shown) :]
        if not shown:
            return
        is_reasoning = part is ReasoningDelta
        screen = self._notes if is_reasoning else self._screen
        if is_new:
            self._part = part
            self._end_lines()
            if is_reasoning and not screen.is_styled:
                screen.write("(reasoning) ")
        screen.write(shown, dim=is_reasoning)

    def _end_lines(self) -> None:
        self._notes.end_line()
        self._screen.end_line()

    def _open_call(self, name: str) -> None:
        self._part = CallOpened
        self._end_lines()
        self._screen.write(f"{name}(")
        self._arguments = ArgumentsText()
        self._is_open = True

    def _close_call(self, call: ToolCall) -> None:
        if not self._is_open:
            self._open_call(call.name)
            self._screen.write(self._arguments.feed(json.dumps(call.arguments, ensure_ascii=False)))
        if call.errors:
            self._screen.write(f")  (does not fit: {call.errors[0].message})\n")
        else:
            self._screen.write(")\n")
        self._is_open = False


def describe_call(call: ToolCall) -> str:
    """Returns a call in a line, as a turn shows it."""
    arguments = ArgumentsText().feed(json.dumps(call.arguments, ensure_ascii=False))
    return f"{call.name}({arguments})"


def show_reply(reply: "Reply", screen: Screen, notes: Screen | None = None) -> None:
    """Shows a turn that is finished; see `TurnPrinter`."""
    printer = TurnPrinter(screen, notes)
    if reply.reasoning:
        printer.take(ReasoningDelta(reply.reasoning))
    if reply.content:
        printer.take(ContentDelta(reply.content))
    for number, call in enumerate(reply.calls):
        printer.take(CallRead(number, call))
    if reply.unfinished:
        printer.take(CallCut(reply.unfinished))
    printer.finish(reply)


def follow(stream: "Stream[Reply]", screen: Screen) -> "Reply":
    """Prints a turn while it is generated, and returns its reply; an interrupt cancels the turn."""
    printer = TurnPrinter(screen)
    try:
        for event in _show_prompt_progress(stream):
            printer.take(event)
        printer.finish(stream.result)
        return stream.result
    finally:
        stream.cancel()  # an interrupt can also come while text is printed
        screen.end_line()


def wait(stream: "Stream[Reply]") -> "Reply":
    """Returns the turn when it is finished; ends it if that is interrupted."""
    try:
        for _ in _show_prompt_progress(stream):
            pass
        return stream.result
    finally:
        stream.cancel()


def _show_prompt_progress(stream: "Stream[Reply]") -> "Iterator[StreamEvent]":
    """Yields the events of a turn. While its prompt is read, if it is long, a line shows how far
    that is; the stream needs `progress`."""
    from constrained.decode.filters.events import ProgressMade

    events = iter(stream)
    with ExitStack() as shown:
        report: Report | None = None
        for event in events:
            if not isinstance(event, ProgressMade) or event.completion_tokens:
                shown.close()
                yield event
            elif event.prompt_tokens - event.cached_tokens >= LONG_PROMPT:
                if report is None:
                    progress = show_progress("reading the prompt", "tokens")
                    report = shown.enter_context(progress)
                if report is not None:
                    report(event.read_tokens, event.prompt_tokens)


class ArgumentsText:
    """Converts the JSON text of an object, piece by piece, to `key=value, key=value`."""

    def __init__(self) -> None:
        self._depth = 0
        self._key: str | None = None  # the part of the key read so far; None: not inside a key
        self._is_key_next = False
        self._in_string = self._is_escaped = False

    def feed(self, text: str) -> str:
        """Returns the text for the next piece of JSON."""
        return "".join(map(self._step, text))

    def _step(self, char: str) -> str:
        if self._in_string:
            return self._read_string(char)
        if char == '"':
            self._in_string = True
            if self._depth == 1 and self._is_key_next:
                self._key = char
                return ""
            self._key = None
        elif char in "{[":
            self._depth += 1
            self._is_key_next = char == "{"
            if self._depth <= 1:  # the braces of the whole are not shown
                return ""
        elif char in "]}":
            self._depth -= 1
            if self._depth == 0:
                return ""
        else:
            return self._separate(char)
        return char

    def _separate(self, char: str) -> str:
        """Converts a character outside of strings: white space, punctuation, or other values."""
        if char.isspace():
            return ""
        if char == ",":
            self._is_key_next = self._depth == 1
            return ", "
        if char == ":" and self._depth == 1:
            self._is_key_next = False
            return "="
        if char == ":":
            return ": "
        return char

    def _read_string(self, char: str) -> str:
        is_end = char == '"' and not self._is_escaped
        self._is_escaped = char == "\\" and not self._is_escaped
        self._in_string = not is_end
        if self._key is None:
            return char
        self._key += char
        if not is_end:
            return ""
        return json.loads(self._key)  # the key without its quotes and escapes
