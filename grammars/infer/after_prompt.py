"""Tests a format after the template's own generation prompt: what the grammar accepts must be
parsed back as the same calls.

That the format writes turns as the template does is not enough: a prompt may have written the
beginning of a call already, or something that the history does not have.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from grammars.errors import DetectError, Error, RenderError
from grammars.infer.detection import Evidence
from grammars.infer.probes import KEYS, NAMES, PARAMETERS, TEXT, ProbedTemplate
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, Start, State, Tool, Turn
from grammars.turn_grammar.ir.completion import Completer, TooLong
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format

_THOUGHT = "I think."
_ARGUMENTS = ({KEYS[0]: "Rome"}, {KEYS[0]: "two words", KEYS[1]: "Oslo"})


def try_after_prompt(chat: ProbedTemplate, format: Format) -> Iterator[Evidence]:
    """Writes turns after the generation prompt, and parses them back.

    Args:
        chat: the template.
        format: the format that was inferred from it.

    Raises:
        DetectError: the grammar refuses such a turn, or takes one that is read as something else.
    """
    opened, plain = chat.ask(opening=True), chat.ask(opening=False)
    if opened is None or plain is None:
        yield Evidence("generation prompt", "", "the template refuses a conversation without turns")
        return
    state = find_state(opened, plain, format, calls=0)
    _refuse_repetition(chat.prompt, format, state)
    rehearsal = _Rehearsal(format, state)
    for probe, turn in _corpus(chat, format):
        for choice in (Choice.AUTO, Choice.REQUIRED):
            if turn.calls or choice is Choice.AUTO:
                text = rehearsal.run(turn, choice)
                if choice is Choice.AUTO and state.start is Start.PLAIN:
                    _refuse_other_place(chat, opened, turn, text)
                yield Evidence(f"{probe} after the prompt, {choice.value}", text, "read back")
    shortest = rehearsal.require_call()
    yield Evidence("the shortest call after the prompt", shortest, "read as a call")


def _refuse_other_place(chat: ProbedTemplate, opened: str, turn: Turn, text: str) -> None:
    """Raises an error for a turn that is fine in the history, but not after the generation prompt.

    Args:
        opened: the conversation with the generation prompt.
        text: the turn as the model generates it.
    """
    history = chat.answer(turn) or ""
    if not history.startswith(opened) or text.strip() not in history:
        return
    if not chat.strip(history.removeprefix(opened)).startswith(text.strip()):
        message = "the generation prompt has written a part of this turn of the history already"
        raise DetectError(f"{message}: {text!r} after {opened!r}")


def _refuse_repetition(prompt: str, format: Format, state: State) -> None:
    """Raises an error if calls begin with a text that the prompt has already written."""
    opener = format.opener
    if opener is not None and not state.lead and opener.text.strip() in prompt:
        message = f"the generation prompt has written {opener.text!r} already, which opens a call"
        raise DetectError(f"{message}: {prompt!r}")


def _corpus(chat: ProbedTemplate, format: Format) -> Iterator[tuple[str, Turn]]:
    one, two = chat.calls(_ARGUMENTS[0]), chat.calls(*_ARGUMENTS)
    yield "content", Turn(TEXT)
    yield "one call", Turn(calls=one)
    if not format.single:
        yield "two calls", Turn(calls=two)
    if format.bare is None and any(content.calls for content in format.contents):
        yield "content and a call", Turn(TEXT, calls=one)


@dataclass(frozen=True)
class _Rehearsal:
    """Turns in a format after a prompt.

    Args:
        format: how they are written.
        state: where the prompt ends.
    """

    format: Format
    state: State
    _completers: dict[Choice, Completer] = field(default_factory=dict[Choice, Completer])

    def run(self, turn: Turn, choice: Choice) -> str:
        """Returns the text of a turn that the grammar accepts and the parser reads back.

        Raises:
            DetectError: it does not.
        """
        if self.state.start is Start.OPEN:
            turn = replace(turn, reasoning=_THOUGHT)
        if choice is Choice.REQUIRED:
            turn = replace(turn, content="")
        try:
            text = render(turn, self.format, _lower_tools(), self.state)
        except RenderError as error:
            message = f"after the generation prompt, a turn cannot be written: {error.message}"
            raise DetectError(message) from error
        if self._complete(text, choice) != "":
            raise DetectError(f"after the generation prompt, the grammar refuses {text!r}")
        self._read(text, turn)
        return text

    def require_call(self) -> str:
        """Returns the shortest turn that the grammar accepts if a call is required.

        Raises:
            DetectError: it is read as something else.
        """
        text = self._complete("", Choice.REQUIRED)
        if text is None or not parse(text, self.format, _lower_tools(), self.state).calls:
            raise DetectError(f"with a call required, the grammar takes {text!r}, which is no call")
        return text

    def _complete(self, text: str, choice: Choice) -> str | None:
        """Returns the shortest ending of a text; None if the grammar does not accept the text."""
        if choice not in self._completers:
            self._completers[choice] = self._make_completer(choice)
        completion = self._completers[choice].complete(text)
        return None if isinstance(completion, TooLong) else completion

    def _make_completer(self, choice: Choice) -> Completer:
        try:
            return Completer(build_turn(self.format, _lower_tools(), Policy(choice), self.state))
        except Error as error:
            message = f"after the generation prompt, there is no grammar: {error.message}"
            raise DetectError(message) from error

    def _read(self, text: str, turn: Turn) -> None:
        """Raises an error if a text is parsed as another turn."""
        read = parse(text, self.format, _lower_tools(), self.state)
        is_alike = _list_calls(read) == _list_calls(turn) and not read.unfinished
        if not is_alike or read.content.strip() != turn.content:
            message = f"after the generation prompt, {text!r} is read as"
            calls = [name for name, _ in _list_calls(read)]
            raise DetectError(f"{message} the content {read.content!r} and calls of {calls!r}")


def _list_calls(turn: Turn) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in turn.calls]


@cache
def _lower_tools() -> tuple[Tool, ...]:
    schema = lower(PARAMETERS)
    return tuple(Tool(name, schema) for name in NAMES)
