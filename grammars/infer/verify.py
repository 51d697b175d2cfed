"""Compares what a format and its template write, byte by byte; and tries the format after the
generation prompt: what the grammar accepts must be parsed back as the same calls.

That the format writes turns as the template does is not enough: a prompt may have written the
beginning of a call already, or something that the history does not have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from grammars.errors import DetectError, Error, RenderError, ToolError
from grammars.infer.detection import Evidence
from grammars.infer.probes import (
    COMPARED,
    KEYS,
    NAMES,
    PARAMETERS,
    THOUGHTFUL,
    TRIED,
    Probe,
    ProbedTemplate,
    show_message,
    write,
)
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, Start, State, Tool, Turn
from grammars.turn_grammar.ir.completion import Completer, TooLong
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import ContentPlace, Format, count_common, squeeze

_THINKS = "I think."
_CHOICES = (Choice.AUTO, Choice.REQUIRED)


@dataclass(frozen=True)
class Tails:
    """The texts that the template writes after content and after calls: the end of the turn."""

    content: str
    calls: str


def compare(
    chat: ProbedTemplate, format: Format, tails: Tails, *, mixed: bool
) -> Iterator[Evidence]:
    """Compares turns, tries them after the generation prompt, and compares thoughts; raises a
    `DetectError` if one is written in another way. `mixed`: the template writes content and calls
    in one turn."""
    is_placed = format.content_places[0] is not ContentPlace.BEFORE
    yield from _compare_turns(chat, format, tails, mixed=mixed or is_placed)
    yield from try_after_prompt(chat, format)
    if chat.reasoning:
        yield from _compare_reasoning(chat, format, tails, mixed=mixed)


def _compare_turns(
    chat: ProbedTemplate, format: Format, tails: Tails, *, mixed: bool
) -> Iterator[Evidence]:
    """Compares turns that the format can write; what the template drops is noted."""
    for probe, turn in _make_turns(COMPARED, chat, mixed=mixed, single=format.single):
        body = chat.body(turn)
        if body is None:
            yield Evidence(probe, "", "the template refuses this")
            continue
        text = chat.strip(body)
        written = _write(turn, format, tails)
        if written is None:
            yield Evidence(probe, text, "the format refuses this")
        elif text == written:
            yield Evidence(probe, text, "written alike")
        elif text in [_write(less, format, tails) for less in _leave_out(turn)]:
            yield Evidence(probe, text, "the template leaves this out")
        else:
            raise DetectError(_describe(probe, text, written))


def _compare_reasoning(
    chat: ProbedTemplate, format: Format, tails: Tails, *, mixed: bool
) -> Iterator[Evidence]:
    """Compares reasoning in the history. Many templates drop it, and some open it only in the
    prompt; so the text in front of it may differ."""
    for probe, turn in _make_turns(THOUGHTFUL, chat, mixed=mixed, single=format.single):
        turn = replace(turn, reasoning=_THINKS)
        text, written = chat.answer(turn) or "", _write(turn, format, tails) or ""
        conclusion = "the template writes this in another way than a turn is generated"
        if turn.reasoning not in text:
            conclusion = "the template drops the reasoning"
        elif text.endswith(written):
            conclusion = "written alike"
        elif squeeze(text).endswith(squeeze(written)):
            conclusion = "written alike but for white space"
        elif written:
            rest, expected = (one.partition(turn.reasoning)[2] for one in (text, written))
            if squeeze(rest) != squeeze(expected):
                raise DetectError(_describe(f"reasoning and {probe}", rest, expected))
        yield Evidence(f"reasoning and {probe}", text, conclusion)


def find_unread_thought(chat: ProbedTemplate) -> str:
    """Returns a turn in which the template writes a thought, although no block was found; or ""."""
    call = chat.calls({KEYS[0]: "x"})
    for turn in (Turn("It is so.", _THINKS), Turn("", _THINKS, call)):
        text = chat.answer(turn) or ""
        if turn.reasoning in text:
            return text
    return ""


def find_other_call(chat: ProbedTemplate, format: Format) -> Iterator[Evidence]:
    """Yields a call after a result, as evidence, if the template writes it in another way than the
    format. DeepSeek R1's template leaves out what opens the calls of a turn there."""
    first, second = chat.calls({KEYS[0]: "x"}, {KEYS[0]: "y"})
    two = Turn(calls=(second,))
    text = chat.ask_after_result(first, show_message(two))
    prompt = chat.ask_after_result(first)
    if text is None or prompt is None:
        return
    written = squeeze(write(two, replace(format, head="", after=""), calls=1))
    # The same call follows a question in this way; ids are not compared.
    if written not in squeeze(chat.answer(two) or ""):
        return
    if written not in squeeze(text):
        conclusion = (
            "after a result, the history has a call in another way than the model writes it"
        )
        yield Evidence("a call after a result", text.removeprefix(prompt), conclusion)


def _describe(probe: str, text: str, written: str) -> str:
    """Quotes both texts, starting a little before their first difference."""
    same = count_common(text, written)
    excerpt = slice(max(0, same - 20), same + 30)
    return f"with {probe} it writes {text[excerpt]!r}, not {written[excerpt]!r}"


def _write(turn: Turn, format: Format, tails: Tails) -> str | None:
    """Returns the turn with the template's end; None if the format cannot write it."""
    try:
        text = render(turn, format).lstrip()
    except (RenderError, ToolError):
        return None
    if not turn.calls:
        return text + tails.content
    if turn.content and format.content_places[0] is ContentPlace.AFTER:
        return text + tails.calls.removeprefix(format.after)  # which is in front of the content
    return text + tails.calls


def _make_turns(
    probes: Sequence[Probe], chat: ProbedTemplate, *, mixed: bool, single: bool
) -> Iterator[tuple[str, Turn]]:
    """Yields the turns of a table, with their names: with content and calls if they are `mixed`."""
    for probe in probes:
        is_mixed = bool(probe.content and probe.arguments)
        if (mixed or not is_mixed) and not (single and len(probe.arguments) > 1):
            yield probe.name, Turn(probe.content, calls=chat.calls(*probe.arguments))


def _leave_out(turn: Turn) -> Iterator[Turn]:
    """Yields the turn once for each argument of its first call, without that argument."""
    for call in turn.calls[:1]:
        for key in call.arguments:
            rest = dict(call.arguments)
            del rest[key]
            yield replace(turn, calls=(replace(call, arguments=rest), *turn.calls[1:]))


def try_after_prompt(chat: ProbedTemplate, format: Format) -> Iterator[Evidence]:
    """Writes turns after the generation prompt, and parses them back. Raises a `DetectError` if the
    grammar refuses such a turn, or takes one that is read as something else."""
    opened, plain = chat.ask(opening=True), chat.ask(opening=False)
    if opened is None or plain is None:
        yield Evidence("generation prompt", "", "the template refuses a conversation without turns")
        return
    state = find_state(opened, plain, format, calls=0)
    _refuse_repetition(chat.prompt, format, state)
    completers = {choice: _make_completer(format, choice, state) for choice in _CHOICES}
    mixed = format.bare is None and any(content.calls for content in format.contents)
    for probe, turn in _make_turns(TRIED, chat, mixed=mixed, single=format.single):
        if state.start is Start.OPEN:
            turn = replace(turn, reasoning=_THINKS)
        for choice, completer in completers.items():
            if choice is Choice.REQUIRED:
                turn = replace(turn, content="")
            if turn.calls or choice is Choice.AUTO:
                text = _read_back(turn, format, state, completer)
                if choice is Choice.AUTO and state.start is Start.PLAIN:
                    _refuse_other_place(chat, opened, turn, text)
                yield Evidence(f"{probe} after the prompt, {choice.value}", text, "read back")
    shortest = _complete(completers[Choice.REQUIRED], "")
    if shortest is None or not parse(shortest, format, _lower_tools(), state).calls:
        message = f"with a call required, the grammar takes {shortest!r}, which is no call"
        raise DetectError(message)
    yield Evidence("the shortest call after the prompt", shortest, "read as a call")


def _make_completer(format: Format, choice: Choice, state: State) -> Completer:
    try:
        return Completer(build_turn(format, _lower_tools(), Policy(choice), state))
    except Error as error:
        message = f"after the generation prompt, there is no grammar: {error.message}"
        raise DetectError(message) from error


def _complete(completer: Completer, text: str) -> str | None:
    """Returns the shortest ending of a text; None if the grammar does not accept the text."""
    completion = completer.complete(text)
    return None if isinstance(completion, TooLong) else completion


def _read_back(turn: Turn, format: Format, state: State, completer: Completer) -> str:
    """Returns the text of a turn, which the grammar has to accept and the parser to read back."""
    try:
        text = render(turn, format, _lower_tools(), state)
    except RenderError as error:
        message = f"after the generation prompt, a turn cannot be written: {error.message}"
        raise DetectError(message) from error
    if _complete(completer, text) != "":
        raise DetectError(f"after the generation prompt, the grammar refuses {text!r}")
    read = parse(text, format, _lower_tools(), state)
    is_alike = _list_calls(read) == _list_calls(turn) and not read.unfinished
    if not is_alike or read.content.strip() != turn.content:
        message = f"after the generation prompt, {text!r} is read as"
        calls = [name for name, _ in _list_calls(read)]
        raise DetectError(f"{message} the content {read.content!r} and calls of {calls!r}")
    return text


def _refuse_other_place(chat: ProbedTemplate, opened: str, turn: Turn, text: str) -> None:
    """Raises an error for a turn that is fine only in the history, and not after `opened`."""
    history = chat.answer(turn) or ""
    if not history.startswith(opened) or text.strip() not in history:
        return
    if not chat.strip(history.removeprefix(opened)).startswith(text.strip()):
        message = "the generation prompt has written a part of this turn of the history already"
        raise DetectError(f"{message}: {text!r} after {opened!r}")


def _refuse_repetition(prompt: str, format: Format, state: State) -> None:
    opener = format.opener
    if opener is not None and not state.lead and opener.text.strip() in prompt:
        message = f"the generation prompt has written {opener.text!r} already, which opens a call"
        raise DetectError(f"{message}: {prompt!r}")


def _list_calls(turn: Turn) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in turn.calls]


@cache
def _lower_tools() -> tuple[Tool, ...]:
    schema = lower(PARAMETERS)
    return tuple(Tool(name, schema) for name in NAMES)
