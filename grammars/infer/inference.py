"""Infers the wire format of a chat template that nobody has described, from what it renders.

The template is rendered on conversations that differ in one thing; the difference between the texts
shows where that thing is written. Nothing here knows a model. The inferred format must then write a
corpus of turns exactly as the template does, byte for byte; otherwise inference fails.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from grammars.errors import DetectError
from grammars.infer.after_prompt import try_after_prompt
from grammars.infer.calls import (
    CallPair,
    CallSample,
    Cut,
    build_call,
    cut_call,
    find_counting,
)
from grammars.infer.detection import Detection, Evidence, NoFormat, Origin, attempt
from grammars.infer.probes import KEYS, TEXT, VALUES, ProbedTemplate, distinct_id, plain_id
from grammars.infer.styles import find_member
from grammars.infer.text import find_tag, leading_space, make_nodes
from grammars.infer.turn import (
    CallLayout,
    Mixed,
    Plain,
    TurnEnding,
    find_closer,
    find_end,
    find_head,
    find_layout,
    find_layouts,
    infer_ending,
    infer_escaped_ending,
    infer_mixed,
    read_content,
)
from grammars.infer.verify import (
    Tails,
    compare_reasoning,
    find_slip,
    find_unread_thought,
    in_usual_style,
    verify,
)
from grammars.turn import ToolCall, Turn
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
# A header that goes on with a word of each part: `<|start|>assistant`, `<|msg|>assistant/`,
# `{"role": "assistant", "kind": "`. In the middle of a tag, the whole tag is the marker.
_OPEN_HEADER = re.compile(r"(?:^|>)[^<>]*\w[^\w\n<>\[\]]*$")
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
    refusal: NoFormat | None = None
    for one_by_one in (False, True):
        found = attempt(_TemplateReader(chat, one_by_one).infer)
        if isinstance(found, Detection):
            return found
        refusal = refusal or found
        # JavaScript has bare keys around JSON, `f({key: {"a": 1}})`: no style of one object.
        if not find_member(text, KEYS[0], VALUES[0], start=0):
            break
    assert refusal is not None
    return NoFormat(f"the calls of this chat template follow no known pattern: {refusal.message}")


@dataclass(frozen=True)
class _ProbedCalls:
    """A turn with one call and a turn with two calls.

    Args:
        one, two: what the template writes.
        only: the call in `one`.
        pair: the calls in `two`; None if they are not both there.
    """

    one: str
    only: Cut
    two: str
    pair: CallPair | None


@dataclass(frozen=True)
class _TemplateReader:
    """Infers the format of a template.

    Args:
        chat: the template.
        one_by_one: arguments are read one by one, although they are in braces.
    """

    chat: ProbedTemplate
    one_by_one: bool = False

    def infer(self) -> Detection:
        calls = self._read_calls()
        layout = self._find_layout(calls)
        chat = replace(self.chat, lead=layout.lead)
        plain = read_content(chat)
        gap = self._find_gap(layout)
        if layout.lead and (gap is not None or plain.opener == layout.lead):
            layout = layout.without_lead(opens_part=gap is not None and bool(plain.opener))
            chat, plain = self.chat, read_content(self.chat)
        call, _ = self._calls
        first = layout.opening + layout.prefix + calls.one[calls.only.start : calls.only.end]
        head = find_head(chat, plain, call=call, first=first)
        _refuse_content_opener(plain.opener, head, first)
        if plain.escaped:
            ending = infer_escaped_ending(chat, tail=plain.tail, rest=layout.rest)
        else:
            ending = infer_ending(chat, opener=plain.opener, tail=plain.tail, rest=layout.rest)
        sample = CallSample(
            chat,
            layout,
            closing=ending.after_calls.rstrip(),
            only=calls.only,
            pair=calls.pair,
        )
        content = Content(
            plain.opener.removeprefix(head),
            ending.closer,
            calls=not plain.escaped,
            escaped=plain.escaped,
            ascii=plain.ascii,
        )
        mixed = infer_mixed(
            chat,
            content,
            call=call,
            first=first.removeprefix(head),
            turn=calls.one.removeprefix(head),
            turn_head=head,
            between=layout.between,
        )
        is_mixed = mixed.before is not None and TEXT in mixed.text
        if mixed.before is None:
            mixed = replace(mixed, before=chat.find_indent(Turn(calls=(call,))))
        written = _assemble(sample, ending, mixed, header=self._find_header(layout), head=head)
        if gap:
            written = _prepend(gap, written)
        if slip := find_slip(written, chat.instruct()):
            slip = f"the chat template writes malformed calls: {slip}"
            return Detection(written, Origin.INFERRED, (), slip=slip)
        is_placed = written.content_places[0] is not ContentPlace.BEFORE
        format = _finish_format(chat, written, measured=is_mixed)
        tails = Tails(
            content=plain.tail.removeprefix(ending.closer),
            calls=layout.rest[len(sample.closing) :],
        )
        evidence = [
            *_describe_parts(calls, plain, mixed, format),
            *verify(chat, format, tails, mixed=is_mixed or is_placed),
            *try_after_prompt(chat, format),
        ]
        unread = "" if chat.reasoning else find_unread_thought(chat)
        if unread:
            conclusion = "reasoning is written in no known way"
            evidence.append(Evidence("reasoning", unread, conclusion))
        elif chat.reasoning:
            evidence += compare_reasoning(chat, format, tails, mixed=is_mixed)
        return Detection(format, Origin.INFERRED, tuple(evidence), drops_thoughts=bool(unread))

    def _find_gap(self, layout: CallLayout) -> str | None:
        """Returns the white space in front of calls if each call has the header of a message, and
        the prompt has already written all of the header that every message of the role has. Else
        None."""
        header, prompt = layout.lead.rstrip(), self.chat.ask(opening=True) or ""
        block = self.chat.reasoning
        is_repeated = block is not None and block.next_opener == header
        is_open = is_repeated or _OPEN_HEADER.search(header) is not None
        names_role = header == self.chat.prompted and is_open
        is_own = bool(layout.prefix.removeprefix(layout.lead))
        is_gap = names_role and prompt.endswith(header) and is_own
        return layout.lead[len(header) :] if is_gap else None

    def _find_header(self, layout: CallLayout) -> str:
        """Returns the rest of the turn's header if calls have a header of their own: content begins
        on the next line, and calls continue the line. Else ""."""
        body = self.chat.body(Turn(TEXT)) or ""
        line, found, _ = (layout.opening + layout.prefix).partition("\n")
        is_header = found and _may_be_header(line) and not find_tag(line)
        # Content has a word of its own, `text`, where calls have `tools`.
        other, _, rest = body.partition("\n")
        is_other = _may_be_header(other) and not other.startswith(line)
        has_other = rest.startswith(TEXT) and is_other
        return line if is_header and (body.startswith("\n") or has_other) else ""

    @property
    def _calls(self) -> tuple[ToolCall, ...]:
        return self.chat.calls({KEYS[0]: VALUES[0]}, {KEYS[0]: VALUES[1]})

    def _cut(self, text: str, call: ToolCall, start: int = 0) -> Cut | None:
        return cut_call(text, call, start, one_by_one=self.one_by_one)

    def _read_calls(self) -> _ProbedCalls:
        first, second = self._calls
        one = self.chat.read(Turn(calls=(first,)))
        only = self._cut(one, first)
        if only is None:
            raise DetectError(_explain_no_call(one))
        if first.id and one.count(first.id) > 1:
            message = "the id of a call is written twice, and no grammar can compare the two"
            raise DetectError(f"{message}: {one!r}")
        two = self.chat.strip(self.chat.body(Turn(calls=(first, second))) or "")
        first_cut = self._cut(two, first)
        second_cut = self._cut(two, second, first_cut.end) if first_cut else None
        if first_cut is None or second_cut is None:
            return _ProbedCalls(one, only, two, pair=None)
        pair = CallPair(two, first_cut, second_cut)
        pair, only = pair.find_counters(one, only)
        return _ProbedCalls(one, only, two, pair=pair)

    def _find_layout(self, calls: _ProbedCalls) -> CallLayout:
        one, only, pair = calls.one, calls.only, calls.pair
        head, following = one[: only.start], one[only.end :]
        # White space that is not read may part the header from a word of the call.
        header = self.chat.prompted + leading_space(
            self.chat.body(Turn(calls=self._calls[:1])) or ""
        )
        if pair is None:
            return find_layout(header=header, head=head, after=following, amid=None)
        if pair.text[: pair.first.start] != head or pair.text[pair.second.end :] != following:
            around_two = pair.text[: pair.first.start], pair.text[pair.second.end :]
            return find_layouts((head, following), around_two, pair.amid)
        plain = read_content(self.chat)
        closer = find_closer(plain.tail, plain.opener)
        end = find_end(self.chat, plain.tail, closer=closer)
        return find_layout(header=header, head=head, after=following, amid=pair.amid, end=end)


def _refuse_counted_ids(format: Format) -> None:
    """Refuses calls in Python whose numbers are ids: their grammar does not count, so two calls
    could have the same id."""
    counts = [node for node in format.call if isinstance(node, CallIndex) and node.id]
    if counts and isinstance(format.hole, KeywordArguments):
        raise DetectError("calls in Python are counted over the conversation")


def _explain_no_call(text: str) -> str:
    """Says why no call was found in what the template writes for one."""
    if KEYS[0] not in text:
        return f"calls do not name their arguments as the schemas do: {text!r}"
    return f"neither JSON nor tags with values in {text!r}"


def _refuse_content_opener(opener: str, head: str, first: str) -> None:
    """Raises an error if the first call, with the text in front of it, begins with the text that
    opens content.

    Args:
        head: the text that opens every turn, which may be a part of the opener.
    """
    if opener.removeprefix(head) and first.startswith(opener):
        raise DetectError(f"calls start like content, with {opener!r}")


def _finish_format(chat: ProbedTemplate, written: Format, *, measured: bool) -> Format:
    """Returns the format under the name of an equal known one, or with the way to count calls.

    Args:
        measured: see `name_format`.

    Raises:
        DetectError: the calls are counted in an unknown way.
    """
    format = name_format(written, measured=measured)
    if format.name == written.name:  # known formats include counting
        format = find_counting(chat, format)
    _refuse_counted_ids(format)
    return _loosen(format) if _has_stray_blanks(format) else format


def _has_stray_blanks(format: Format) -> bool:
    """Returns whether several blanks stand beside a marker, in one line. They are of the source of
    the template, with blanks around each of its statements, and the model may not write them."""
    nodes = (*format.opening, *format.call, *format.closing)
    texts = [node.text for node in nodes if isinstance(node, Literal)]
    return any(len(text) > 1 and not text.strip(" ") for text in (*texts, format.between))


def _loosen(format: Format) -> Format:
    """Returns the format in which the model chooses the white space around JSON."""
    call: list[Node] = []
    for node in format.call:
        if isinstance(node, JsonCall | JsonArguments):
            node = replace(node, style=replace(node.style, loose=True))
        call.append(node)
    return replace(format, call=tuple(call))


def _describe_parts(
    calls: _ProbedCalls, plain: Plain, mixed: Mixed, format: Format
) -> Iterator[Evidence]:
    """Yields what was inferred from turns of content, of calls, and of both."""
    yield Evidence("content", plain.opener + TEXT + plain.tail, _describe_content(format))
    yield Evidence("one call", calls.one, f"a call is {_describe_call(format)}")
    yield Evidence("two calls", calls.two, _describe_calls(format))
    yield Evidence("content and a call", mixed.text, mixed.conclusion)


def _assemble(
    sample: CallSample, ending: TurnEnding, mixed: Mixed, *, header: str, head: str
) -> Format:
    call = build_call(sample)
    layout = replace(sample.layout, opening=sample.layout.opening.removeprefix(head))
    opening = _open_calls(layout, call, header)
    place = mixed.place
    if place is ContentPlace.INSIDE and (len(opening) < 2 or opening[0].text != mixed.opener):
        place = ContentPlace.BEFORE  # it is in the middle of a text, which no format can describe
    try:
        return Format(
            name="inferred",
            call=call,
            opening=opening,
            closing=make_nodes(sample.closing if sample.pair else ""),
            reasoning=sample.chat.reasoning,
            contents=mixed.contents,
            content_places=tuple(dict.fromkeys([place, ContentPlace.BEFORE])),
            before=mixed.before or "",
            between=layout.between,
            after=ending.after_calls[len(sample.closing) :],
            head=head,
            tail=ending.tail,
            ends=ending.ends,
            single=sample.pair is None,
            several=_read_several(sample, head),
        )
    except TypeError as error:
        raise DetectError(str(error)) from error


def _read_several(sample: CallSample, head: str) -> Several | None:
    """Returns how two calls are written; None if one call is written in the same way.

    Raises:
        DetectError: the turn ends in another way after two calls than after one.
    """
    layout = sample.layout.several
    if layout is None:
        return None
    end = sample.layout.rest[len(sample.closing) :]
    if not layout.rest.endswith(end):
        raise DetectError(f"two calls end with {layout.rest!r}, and one with {end!r}")
    return Several(
        make_nodes(layout.opening.removeprefix(head), opens=True),
        make_nodes(layout.rest.removesuffix(end)),
        layout.between,
    )


def _prepend(gap: str, format: Format) -> Format:
    """Returns the format with this white space in front of calls and content. It stands between the
    header in the prompt and the model's text."""
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
    """Returns whether it has a word or more and no quotes or brackets: HyperCLOVAX writes
    `-> tool/function_call`."""
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
    """Returns the format under the name of the equal known format, if there is one.

    Args:
        format: what was inferred.
        measured: the text between content and calls is known. If it is not, and calls without
            content have no text before them, it is as in the known format.
    """
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
    """Returns the format without the differences within a family of templates."""
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


def _describe_call(format: Format) -> str:
    return ", ".join(type(node).__name__ for node in format.call)


def _describe_calls(format: Format) -> str:
    if format.single:
        return "the template writes one call in a turn"
    opening, between, closing = format.opening, format.between, format.closing
    if format.several is not None:
        several = format.several
        opening, between, closing = several.opening, several.between, several.closing
    texts = {
        "opened by": spell_fixed(opening),
        "between them": between,
        "closed by": spell_fixed(closing),
    }
    parts = [f"{what}: {text!r}" for what, text in texts.items() if text]
    return "; ".join(parts) or "calls stand side by side"
