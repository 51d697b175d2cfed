"""Compares what a format and its template write, turn by turn and byte by byte."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from grammars.errors import DetectError, RenderError, ToolError
from grammars.infer.probes import KEYS, Evidence, ProbedTemplate
from grammars.render import render
from grammars.schema.nodes import Json
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format, count_common

_VALUES: dict[str, Json] = {
    "a text": "Rome",
    "an empty text": "",
    "a text with quotes": 'it\'s "so" \\ `x`',
    "a text of two lines": "one\ntwo\n\nfour",
    "a text beyond ASCII": "Zürich 東京 🌧",
    "a text with white space around it": " a \n",
    "a text with brackets": "a < b && {c} [d] & 1 > 0",
    "a text that reads as a number": "3",
    "an integer": -40,
    "a large integer": 2**53 + 1,
    "a number": 0.25,
    "a whole number": 3.0,
    "a tiny number": 1e-07,
    "true": True,
    "false": False,
    "null": None,
    "an empty list": [],
    "a list": [1, "a'b", [True, None], {"k": 0.5}],
    "an empty object": {},
    "an object": {"z": 'x"y\n', "a": {"b": [False, "ü", {}]}, "B": None},
}


@dataclass(frozen=True)
class Tails:
    """What the template writes behind content, and behind calls: the end of the turn."""

    content: str
    calls: str


def verify(
    chat: ProbedTemplate, format: Format, tails: Tails, *, mixed: bool
) -> Iterator[Evidence]:
    """Compares turns; what the format refuses is left out, what the template drops is noted.

    Args:
        chat: the template.
        format: what was read off it.
        tails: what stands behind the turns.
        mixed: the template writes content and calls in one turn.

    Raises:
        DetectError: a turn is written in another way.
    """
    for probe, turn in _corpus(chat, mixed=mixed, single=format.single):
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


def compare_reasoning(chat: ProbedTemplate, format: Format, tails: Tails) -> Iterator[Evidence]:
    """Compares reasoning in the history. Many templates drop it, so no difference is an error."""
    call = chat.calls({KEYS[0]: "x"})
    turns = {"a call": Turn("", "I think.", call), "content": Turn("It is so.", "I think.")}
    for probe, turn in turns.items():
        text, written = chat.answer(turn) or "", _write(turn, format, tails) or ""
        conclusion = "the template writes this in another way than a turn is generated"
        if turn.reasoning not in text:
            conclusion = "the template drops the reasoning"
        elif text.endswith(written):
            conclusion = "written alike"
        elif "".join(text.split()).endswith("".join(written.split())):
            conclusion = "written alike but for white space"
        yield Evidence(f"reasoning and {probe}", text, conclusion)


def _describe(probe: str, text: str, written: str) -> str:
    """Quotes both texts from a little before their first difference."""
    same = count_common(text, written)
    excerpt = slice(max(0, same - 20), same + 30)
    return f"with {probe} it writes {text[excerpt]!r}, not {written[excerpt]!r}"


def _write(turn: Turn, format: Format, tails: Tails) -> str | None:
    """The turn with the template's end; None where the format refuses it."""
    try:
        text = render(turn, format).lstrip()
    except (RenderError, ToolError):
        return None
    return text + (tails.calls if turn.calls else tails.content)


def _leave_out(turn: Turn) -> Iterator[Turn]:
    """The turn without one of the arguments of its first call, for each of them."""
    for call in turn.calls[:1]:
        for key in call.arguments:
            rest = dict(call.arguments)
            del rest[key]
            yield replace(turn, calls=(replace(call, arguments=rest), *turn.calls[1:]))


def _corpus(chat: ProbedTemplate, *, mixed: bool, single: bool) -> Iterator[tuple[str, Turn]]:
    """Turns of all kinds, each with what is special about it."""
    yield "some content", Turn("It is sunny.")
    yield "content of two lines", Turn("One.\n\nTwo: ü.")
    a, b, c = KEYS
    for kind, value in _VALUES.items():
        yield kind, Turn(calls=chat.calls({a: value}))
    everything: dict[str, Json] = {a: "x y", b: [1, {"k": None}], c: -2}
    several: list[tuple[str, tuple[ToolCall, ...]]] = [
        ("no argument", chat.calls({})),
        ("three arguments", chat.calls(everything)),
        ("two calls, two arguments", chat.calls({a: "x"}, {b: 2, c: True})),
        ("two calls without arguments", chat.calls({}, {})),
        ("three calls", chat.calls(everything, {}, {c: {"k": "v"}})),
    ]
    for probe, calls in several:
        if not single or len(calls) == 1:
            yield probe, Turn(calls=calls)
            if mixed:
                yield f"content and {probe}", Turn("I look it up.", calls=calls)
