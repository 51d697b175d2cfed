"""Infers the wire format of a chat template that nobody has described, from what it renders.

The template is rendered on conversations that differ in one thing; the difference between the texts
shows where that thing is written. Nothing here knows a model. The inferred format must then write a
corpus of turns exactly as the template does, byte for byte; otherwise inference fails.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from grammars.errors import DetectError
from grammars.infer.calls import build_call, find_counting
from grammars.infer.cutting import CallLayout, WrittenCalls, find_member, probe_calls, read_calls
from grammars.infer.detection import Detection, Evidence, NoFormat, Origin, attempt
from grammars.infer.probes import KEYS, TEXT, VALUES, ProbedTemplate, distinct_id, plain_id
from grammars.infer.slips import find_slip, in_usual_style
from grammars.infer.text import find_tag, make_nodes
from grammars.infer.turn import TurnTexts, read_turn
from grammars.infer.verify import Tails, compare, find_unread_thought
from grammars.turn import Turn
from grammars.wire.format import (
    CallIndex,
    Content,
    ContentPlace,
    Fixed,
    Format,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    Literal,
    Marker,
    Node,
    Several,
    spell_fixed,
)
from grammars.wire.formats import NATIVE

_WORD = re.compile(r"\w{3}")
_NOT_IN_HEADERS = re.compile(r"""["'{}\[\]]""")
_LIST_MEMBER = re.compile(r"""\{\s*(?:"[^"\\]+"\s*:\s*"[^"\\]*"\s*,\s*)*"[^"\\]+"\s*:\s*\[""")


def infer(chat: ProbedTemplate) -> Detection | NoFormat:
    """Infers the format that a template writes. If the calls are malformed, it has a slip."""
    found = _infer(chat)
    if isinstance(found, NoFormat) and chat.is_spaced:
        spaced = _infer(replace(chat, spaced=True))
        return found if isinstance(spaced, NoFormat) else spaced
    return found


def _infer(chat: ProbedTemplate) -> Detection | NoFormat:
    for scheme in (plain_id, distinct_id):  # Kimi K2 writes the id alone, which holds the name
        chat = replace(chat, scheme=scheme)
        text = attempt(partial(chat.read, Turn(calls=(chat.call,))))
        if isinstance(text, NoFormat):
            return text
        if VALUES[0] not in text:
            return NoFormat("the chat template writes no tool calls")
        if chat.call.name in text:
            break
    else:
        return NoFormat(
            f"the chat template does not write the names of tools as they are: {text!r}"
        )
    refusals: list[str] = []
    for one_by_one in (False, True):
        found = attempt(partial(_infer_format, chat, one_by_one=one_by_one))
        if isinstance(found, Detection):
            return found
        refusals.append(found.message)
        # JavaScript has bare keys around JSON, `f({key: {"a": 1}})`: no style of one object.
        if not find_member(text, KEYS[0], VALUES[0], start=0):
            break
    return NoFormat(f"the calls of this chat template follow no known pattern: {refusals[0]}")


def _infer_format(chat: ProbedTemplate, *, one_by_one: bool) -> Detection:
    calls = read_calls(chat, one_by_one=one_by_one)
    turn = read_turn(calls)
    calls = replace(calls, closing=turn.ending.after_calls.rstrip())
    written = _assemble(calls, turn)
    if slip := find_slip(written, chat.render(opening=True)):
        slip = f"the chat template writes malformed calls: {slip}"
        return Detection(written, Origin.INFERRED, (), slip=slip)
    format = _finish_format(calls.chat, written, measured=turn.is_mixed)
    tails = Tails(
        content=turn.plain.tail.removeprefix(turn.ending.closer),
        calls=calls.layout.rest[len(calls.closing) :],
    )
    described = _describe_parts(calls, turn, format)
    compared = compare(calls.chat, format, tails, mixed=turn.is_mixed)
    unread = "" if chat.reasoning else find_unread_thought(calls.chat)
    thoughts = (Evidence("reasoning", unread, "reasoning is written in no known way"),)
    evidence = (*described, *compared, *(thoughts if unread else ()))
    return Detection(format, Origin.INFERRED, evidence, drops_thoughts=bool(unread))


def _finish_format(chat: ProbedTemplate, written: Format, *, measured: bool) -> Format:
    """Returns the format under the name of an equal known one, or with the way to count calls."""
    format = name_format(written, measured=measured)
    if format.name == written.name:  # known formats include counting
        format = find_counting(chat, format)
    counts = [node for node in format.call if isinstance(node, CallIndex) and node.id]
    if counts and isinstance(format.hole, KeywordArguments):
        # Their grammar does not count, so two calls could have the same id.
        raise DetectError("calls in Python are counted over the conversation")
    return _loosen(format)


def _loosen(format: Format) -> Format:
    """Lets the model choose the white space around JSON if several blanks stand beside a marker, in
    one line. They are of the source of the template, with blanks around each of its statements, and
    the model may not write them."""
    nodes = (*format.opening, *format.call, *format.closing)
    texts = [node.text for node in nodes if isinstance(node, Literal)]
    if not any(len(text) > 1 and not text.strip(" ") for text in (*texts, format.between)):
        return format
    call: list[Node] = []
    for node in format.call:
        if isinstance(node, JsonCall | JsonArguments):
            node = replace(node, style=replace(node.style, loose=True))
        call.append(node)
    return replace(format, call=tuple(call))


def _describe_parts(calls: WrittenCalls, turn: TurnTexts, format: Format) -> Iterator[Evidence]:
    plain, mixed = turn.plain, turn.mixed
    yield Evidence("content", plain.opener + TEXT + plain.tail, _describe_content(format))
    nodes = ", ".join(type(node).__name__ for node in format.call)
    yield Evidence("one call", calls.one, f"a call is {nodes}")
    yield Evidence("two calls", calls.two, _describe_calls(format))
    yield Evidence("content and a call", mixed.text, mixed.conclusion)


def _assemble(calls: WrittenCalls, turn: TurnTexts) -> Format:
    ending, mixed, head = turn.ending, turn.mixed, turn.head
    call = build_call(calls)
    layout = replace(calls.layout, opening=calls.layout.opening.removeprefix(head))
    opening = _open_calls(layout, call, _find_header(calls))
    place = mixed.place
    if place is ContentPlace.INSIDE and (len(opening) < 2 or opening[0].text != mixed.opener):
        place = ContentPlace.BEFORE  # it is in the middle of a text, which no format can describe
    before = mixed.before
    if before is None:
        before = calls.chat.find_indent(Turn(calls=probe_calls(calls.chat)[:1]))
    try:
        format = Format(
            name="inferred",
            call=call,
            opening=opening,
            closing=make_nodes(calls.closing if calls.pair else ""),
            reasoning=calls.chat.reasoning,
            contents=mixed.contents,
            content_places=tuple(dict.fromkeys([place, ContentPlace.BEFORE])),
            before=before,
            between=layout.between,
            after=ending.after_calls[len(calls.closing) :],
            head=head,
            tail=ending.tail,
            ends=ending.ends,
            single=calls.pair is None,
            several=_read_several(calls, head),
        )
    except TypeError as error:
        raise DetectError(str(error)) from error
    return _prepend(calls.gap, format) if calls.gap else format


def _find_header(calls: WrittenCalls) -> str:
    """Returns the rest of the turn's header if calls have a header of their own: content begins on
    the next line, and calls continue the line. Else ""."""
    body = replace(calls.chat, lead="").body(Turn(TEXT)) or ""
    line, found, _ = (calls.layout.opening + calls.layout.prefix).partition("\n")
    is_header = found and _may_be_header(line) and not find_tag(line)
    # Content has a word of its own, `text`, where calls have `tools`.
    other, _, rest = body.partition("\n")
    is_other = _may_be_header(other) and not other.startswith(line)
    has_other = rest.startswith(TEXT) and is_other
    return line if is_header and (body.startswith("\n") or has_other) else ""


def _read_several(calls: WrittenCalls, head: str) -> Several | None:
    """Returns how two calls are written; None if one call is written in the same way."""
    layout = calls.layout.several
    if layout is None:
        return None
    end = calls.layout.rest[len(calls.closing) :]
    if not layout.rest.endswith(end):
        raise DetectError(f"two calls end with {layout.rest!r}, and one with {end!r}")
    return Several(
        make_nodes(layout.opening.removeprefix(head), opens=True),
        make_nodes(layout.rest.removesuffix(end)),
        layout.between,
    )


def _prepend(gap: str, format: Format) -> Format:
    """Returns the format with this white space, which the header in the prompt lacks, before all
    text."""
    opener, *rest = format.call
    if not isinstance(opener, Marker):
        return format
    contents: list[Content] = []
    for content in format.contents:
        head = gap + content.opener if content.opener else ""
        contents.append(replace(content, opener=head))
    return replace(
        format,
        call=(Marker(gap + opener.text), *rest),
        contents=tuple(contents),
        before=format.before.removesuffix(gap),
        between=format.between.removesuffix(gap),
    )


def _may_be_header(line: str) -> bool:
    """Whether it has a word and no quotes or brackets: HyperCLOVAX writes `->
    tool/function_call`."""
    return _WORD.search(line) is not None and _NOT_IN_HEADERS.search(line) is None


def _open_calls(layout: CallLayout, call: Sequence[Node], header: str) -> tuple[Fixed, ...]:
    """Returns the nodes of the text that opens all calls: a marker, the header of calls, the
    bracket of a list of bare calls, or an object with such a list as its only member."""
    if header and layout.opening.startswith(header):
        return (Marker(header), *make_nodes(layout.opening.removeprefix(header)))
    is_bracket = layout.opening.strip() in ("[", "(")
    holds_list = _LIST_MEMBER.fullmatch(layout.opening.strip()) is not None
    is_python = any(isinstance(node, KeywordArguments) for node in call)
    is_object = isinstance(call[0], JsonCall | Literal)
    is_bare = (is_bracket and (is_object or is_python)) or (holds_list and is_object)
    opens = bool(layout.opening) and not is_bare
    return make_nodes(layout.opening, opens=opens)


def name_format(format: Format, *, measured: bool) -> Format:
    """Returns the format under the name of the equal known format, if there is one. Unless the text
    between content and calls was `measured`, and if calls without content have no text before them,
    it is as in the known format."""
    for known in NATIVE:
        if _normalise(format) == _normalise(known):
            return replace(
                format,
                name=known.name,
                content_places=tuple(
                    dict.fromkeys([*format.content_places, *known.content_places])
                ),
                before=format.before if measured or format.before else known.before,
                variants=known.variants,
                strays=known.strays,
                headers=known.headers,
            )
    return format


def _normalise(format: Format) -> Format:
    return replace(
        in_usual_style(format),
        name="",
        reasoning=None,
        content_places=(ContentPlace.BEFORE,),
        before="",
        between="",
        after="",
        tail="",
        ends=(),
        variants=(),
        strays=(),
        late_header=None,
        headers=None,
    )


def _describe_content(format: Format) -> str:
    content = format.contents[0]
    manner = "as it is"
    if content.opener or content.closer:
        manner = f"between {content.opener!r} and {content.closer!r}"
    if content.escaped:
        manner += ", as a JSON string"
    ends = " or ".join(format.ends) or "nothing"
    return f"content is written {manner}; a turn ends with {ends}"


def _describe_calls(format: Format) -> str:
    if format.single:
        return "the template writes one call in a turn"
    written = format.several or format
    texts = {
        "opened by": spell_fixed(written.opening),
        "between them": written.between,
        "closed by": spell_fixed(written.closing),
    }
    parts = [f"{what}: {text!r}" for what, text in texts.items() if text]
    return "; ".join(parts) or "calls stand side by side"
