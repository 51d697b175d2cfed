"""Compares what a format and its template write, turn by turn and byte by byte. Also finds
malformed calls, which no model was trained to write."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from grammars.errors import DetectError, RenderError, ToolError
from grammars.infer.detection import Evidence
from grammars.infer.probes import KEYS, ProbedTemplate, show_message, squeeze, write
from grammars.infer.text import find_tag, merge_literals, tokenise
from grammars.parse.render import render
from grammars.schema.json_values import Json
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    ContentPlace,
    Fixed,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    NestedArguments,
    Node,
    TaggedArguments,
    count_common,
    spell_fixed,
)
from grammars.wire.formats import NATIVE

VALUES: dict[str, Json] = {
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
"""Arguments of all kinds, each with a description."""

_CALL = ToolCall("probe", {"key": "value"}, id="abcdefgh0")
# A tag that another one closes, with its argument (`<function=probe>`); others need no closing tag.
_PAIRED = re.compile(r"<(?P<slash>/?)(?P<name>\w[\w:.-]*)(?:[=\s][^<>]*)?>")
_CUT_TAG = re.compile(r"</?\w[\w:.-]*(?=<|\s*$)")
_ANY_TAG = re.compile(r"<[^<>]+>|\[/?[A-Z][A-Z_]+\]")
_BRACKETS = {"{": "}", "[": "]", "(": ")"}
_MAX_SLIPS = 2  # words and tags


@dataclass(frozen=True)
class Tails:
    """The texts that the template writes after content and after calls: the end of the turn."""

    content: str
    calls: str


def verify(
    chat: ProbedTemplate, format: Format, tails: Tails, *, mixed: bool
) -> Iterator[Evidence]:
    """Compares turns. Turns that the format cannot write are skipped; what the template drops is
    noted.

    Args:
        chat: the template.
        format: what was read off it.
        tails: the text after the turns.
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


def compare_reasoning(
    chat: ProbedTemplate, format: Format, tails: Tails, *, mixed: bool
) -> Iterator[Evidence]:
    """Compares reasoning in the history. Many templates drop it, and some open it only in the
    prompt; so the text in front of it may differ.

    Args:
        chat: the template.
        format: what was read off it.
        tails: the text after the turns.
        mixed: the template writes content and calls in one turn.

    Raises:
        DetectError: after the reasoning, a turn is written in another way.
    """
    call = chat.calls({KEYS[0]: "x"})
    turns = {"a call": Turn("", "I think.", call), "content": Turn("It is so.", "I think.")}
    if mixed:
        turns["content and a call"] = Turn("It is so.", "I think.", call)
    for probe, turn in turns.items():
        text, written = chat.answer(turn) or "", _write(turn, format, tails) or ""
        conclusion = "the template writes this in another way than a turn is generated"
        if turn.reasoning not in text:
            conclusion = "the template drops the reasoning"
        elif text.endswith(written):
            conclusion = "written alike"
        elif squeeze(text).endswith(squeeze(written)):
            conclusion = "written alike but for white space"
        elif written:
            _refuse_other_rest(probe, text.partition(turn.reasoning)[2], written, turn)
        yield Evidence(f"reasoning and {probe}", text, conclusion)


def _refuse_other_rest(probe: str, rest: str, written: str, turn: Turn) -> None:
    """Raises an error if the rest of a turn after the thought differs from what was written."""
    expected = written.partition(turn.reasoning)[2]
    if squeeze(rest) != squeeze(expected):
        raise DetectError(_describe(f"reasoning and {probe}", rest, expected))


def find_unread_thought(chat: ProbedTemplate) -> str:
    """Returns a turn with a thought that the template writes although no reasoning block was found;
    "" if it writes none."""
    call = chat.calls({KEYS[0]: "x"})
    for turn in (Turn("It is so.", "I think."), Turn("", "I think.", call)):
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


def _leave_out(turn: Turn) -> Iterator[Turn]:
    """Yields the turn once for each argument of its first call, without that argument."""
    for call in turn.calls[:1]:
        for key in call.arguments:
            rest = dict(call.arguments)
            del rest[key]
            yield replace(turn, calls=(replace(call, arguments=rest), *turn.calls[1:]))


def _corpus(chat: ProbedTemplate, *, mixed: bool, single: bool) -> Iterator[tuple[str, Turn]]:
    """Yields turns of all kinds, each with a description."""
    yield "some content", Turn("It is sunny.")
    yield "content of two lines", Turn("One.\n\nTwo: ü.")
    a, b, c = KEYS
    for kind, value in VALUES.items():
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


def find_slip(format: Format, prompt: str) -> str:
    """Describes what is malformed in the calls of a format; "" if nothing is.

    Args:
        format: what a template writes.
        prompt: the prompt with tools, which may show closing tags.
    """
    if isinstance(format.hole, NestedArguments):
        return ""  # its marks are brackets that open nothing
    text = _write_call(format)
    return (
        _find_repeated_opener(format)
        or _find_unopened_call(format)
        or _find_unpaired_tag(text, format, prompt)
        or _find_missing_sign(format.header + text)  # the header may have opened a quote
    )


def _write_call(format: Format) -> str:
    """Returns a turn with one call; "" if the format cannot write it."""
    whole = replace(format, head="")  # its closing tag is after all calls
    return write(Turn(calls=(_CALL,)), whole, calls=0)


def _find_repeated_opener(format: Format) -> str:
    if format.opener is None:
        return ""
    closers = [node.text for node in format.closing]
    if isinstance(format.call[-1], Fixed):
        closers.append(format.call[-1].text)
    tag = find_tag(format.opener.text)
    if tag is not None and any(tag[0] in closer for closer in closers):
        return f"a call is closed with {tag[0]!r}, which opens it"
    return ""


def _find_unopened_call(format: Format) -> str:
    tag = _find_own_closer(format)
    if tag is None or format.single:
        return ""
    return f"each call is closed with </{tag}>, but only the first of a turn is opened with <{tag}>"


def _find_own_closer(format: Format) -> str | None:
    """Returns the name of the tag that each call closes, if only the text that opens all calls
    opens it; else None."""
    opened = [tag["name"] for tag in _PAIRED.finditer(spell_fixed(format.opening))]
    for tag in _PAIRED.finditer(spell_fixed(format.call)):
        if tag["slash"] and tag["name"] in opened:
            return tag["name"]
        if not tag["slash"]:
            opened = [name for name in opened if name != tag["name"]]
    return None


def open_each_call(slipped: Format) -> Format | None:
    """Returns the format in which every call is opened like the first one, if that is all that the
    others lack. None if something else is wrong."""
    if _find_own_closer(slipped) is None or slipped.closing:
        return None
    call = merge_literals([*slipped.opening, *slipped.call])
    return replace(slipped, opening=(), call=call)


def _find_unpaired_tag(text: str, format: Format, prompt: str) -> str:
    """Returns a tag of a call without its closing tag. Some tags need none, and some are closed by
    another tag; a closing tag is missing only if the prompt shows one."""
    if cut := _CUT_TAG.search(text):
        return f"the tag {cut[0]!r} has no end"
    opened: list[str] = []
    alone: list[str] = []
    for tag in _PAIRED.finditer(text):
        name = tag["name"]
        if not tag["slash"]:
            opened.append(name)
        elif name in opened:
            while (last := opened.pop()) != name:
                alone.append(last)
    for name in (*alone, *opened):
        closer = f"</{name}>"
        if closer in prompt and closer not in "".join(format.ends):
            return f"a call opens <{name}> and never closes it, but the prompt shows {closer!r}"
    return ""


def _find_missing_sign(text: str) -> str:
    """Returns a quote or a bracket without its counterpart, outside of tags."""
    plain = _ANY_TAG.sub("", text)
    if plain.count('"') % 2:
        return f"a quote is missing in {plain!r}"
    for opener, closer in _BRACKETS.items():
        if plain.count(opener) != plain.count(closer):
            return f"a bracket, {opener!r} or {closer!r}, is missing in {plain!r}"
    return ""


def find_meant(slipped: Format, prompt: str) -> Format | None:
    """Returns the known format that a template with malformed calls means: the prompt shows its
    markers, and its calls differ from those of the template only in the slip.

    Args:
        slipped: what the template writes.
        prompt: the prompt with tools.
    """
    text = _CUT_TAG.sub(r"\g<0>>", _write_call(in_usual_style(slipped)))
    written = tokenise(squeeze(text))
    nearest: list[Format] = []
    fewest = _MAX_SLIPS
    for known in NATIVE:
        tags = [marker for marker in known.markers if marker not in _list_reasoning_tags(known)]
        if not tags or not all(tag in prompt for tag in tags):
            continue
        meant = tokenise(squeeze(_write_call(in_usual_style(known))))
        distance = _count_edits(written, meant, fewest)
        if distance < fewest:
            fewest, nearest = distance, []
        if distance == fewest:
            nearest.append(known)
    if len(nearest) != 1:
        return None
    (known,) = nearest
    return replace(
        known,
        reasoning=slipped.reasoning,
        contents=slipped.contents,
        ends=tuple(dict.fromkeys([*slipped.ends, *known.ends])),
    )


def _list_reasoning_tags(format: Format) -> tuple[str, ...]:
    block = format.reasoning
    return () if block is None else block.markers


def in_usual_style(format: Format) -> Format:
    """Returns the format with JSON in the usual style."""
    nodes: list[Node] = []
    for node in format.call:
        if isinstance(node, JsonCall | JsonArguments | TaggedArguments):
            node = replace(node, style=JsonStyle())
        nodes.append(node)
    return replace(format, call=tuple(nodes))


def _count_edits(a: list[str], b: list[str], max_edits: int) -> int:
    """Counts the words that must be inserted, deleted or replaced to make one list equal the other;
    a number above `max_edits` if it takes more."""
    if abs(len(a) - len(b)) > max_edits:
        return max_edits + 1
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        above, row = row, [i]
        for j, other in enumerate(b, 1):
            replaced = above[j - 1] + (word != other)
            row.append(min(replaced, above[j] + 1, row[j - 1] + 1))
    return row[-1]
