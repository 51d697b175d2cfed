"""The wire format of a chat template that nobody has described: read off what it renders.

The template is rendered on conversations that differ in one thing, and what differs in the text
tells where that thing goes. Nothing here knows a model. What was inferred must then write a corpus
of turns as the template does, byte for byte; if it does not, there is no answer.
"""

from dataclasses import dataclass, replace

from grammars.errors import DetectError
from grammars.formats import NATIVE
from grammars.infer.calls import (
    CallLayout,
    CallSample,
    Cut,
    build_call,
    cut_call,
    find_layout,
)
from grammars.infer.probes import KEYS, VALUES, Evidence, ProbedTemplate, Render, telling_id
from grammars.infer.reasoning import find_reasoning
from grammars.infer.text import make_nodes
from grammars.infer.turn import Mixed, TurnEnding, infer_ending, infer_mixed, read_content
from grammars.infer.verify import Tails, compare_reasoning, verify
from grammars.spelling.python import spell_fixed
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    TaggedArguments,
)


@dataclass(frozen=True)
class Inference:
    """A format, and why it is that."""

    format: Format
    evidence: tuple[Evidence, ...]


def infer(render_chat: Render) -> Inference:
    """The format that a template writes.

    Raises:
        DetectError: the template writes no calls, or none that a format describes.
    """
    chat = ProbedTemplate(render_chat, find_reasoning(render_chat))
    (call,) = chat.calls({KEYS[0]: VALUES[0]})
    text = chat.read(Turn(calls=(call,)))
    if VALUES[0] not in text:
        raise DetectError("the chat template writes no tool calls")
    if call.name not in text:  # the id says it all
        chat = replace(chat, scheme=telling_id)
    try:
        return _TemplateReader(chat).infer()
    except DetectError as error:
        message = f"the calls of this chat template follow no known pattern: {error.message}"
        raise DetectError(message) from error


@dataclass(frozen=True)
class _CallPair:
    """One call and two calls, and where they are."""

    one: str
    only: Cut
    two: str
    first: Cut | None = None
    second: Cut | None = None

    @property
    def pair(self) -> tuple[Cut, Cut] | None:
        return (self.first, self.second) if self.first and self.second else None


@dataclass(frozen=True)
class _TemplateReader:
    chat: ProbedTemplate

    def infer(self) -> Inference:
        calls = self._read_calls()
        layout = self._find_layout(calls)
        chat = replace(self.chat, lead=layout.lead)
        plain = read_content(chat)
        if plain.opener and (layout.opening + layout.prefix).startswith(plain.opener):
            raise DetectError(f"calls begin as content does, with {plain.opener!r}")
        ending = infer_ending(chat, plain.opener, plain.tail, layout.rest)
        written = CallSample(chat, layout, ending.calls.rstrip(), calls.only, calls.pair)
        first = layout.opening + layout.prefix + calls.one[calls.only.start : calls.only.end]
        call = self._call(0)
        mixed = infer_mixed(chat, call, first, opener=plain.opener, closer=ending.closer)
        format = name_format(_assemble(written, ending, mixed), measured=mixed.before is not None)
        tail = plain.tail.removeprefix(ending.closer) if plain.opener else plain.tail
        tails = Tails(content=tail, calls=layout.rest[len(written.closing) :])
        evidence = [
            Evidence("content", plain.opener + "PROBE-TEXT" + plain.tail, _tell_content(format)),
            Evidence("one call", calls.one, _tell_call(format)),
            Evidence("two calls", calls.two, _tell_calls(format)),
            Evidence("content and a call", mixed.text, mixed.note),
        ]
        rows = list(verify(chat, format, tails, mixed=mixed.before is not None))
        if chat.reasoning:
            rows += compare_reasoning(chat, format, tails)
        evidence += [Evidence(r.probe, r.text, r.note or "written alike") for r in rows]
        return Inference(format, tuple(evidence))

    def _call(self, number: int) -> ToolCall:
        return self.chat.calls({KEYS[0]: VALUES[0]}, {KEYS[0]: VALUES[1]})[number]

    def _read_calls(self) -> _CallPair:
        first, second = self._call(0), self._call(1)
        one = self.chat.read(Turn(calls=(first,)))
        only = cut_call(one, first)
        if only is None:
            raise DetectError(f"neither JSON nor tags with values in {one!r}")
        body = self.chat.body(Turn(calls=(first, second)))
        two = "" if body is None else self.chat.strip(body)
        first_cut = cut_call(two, first)
        if first_cut is None:
            return _CallPair(one, only, two)
        second_cut = cut_call(two, second, first_cut.end)
        return _CallPair(one, only, two, first_cut, second_cut)

    def _find_layout(self, calls: _CallPair) -> CallLayout:
        one, only = calls.one, calls.only
        header, head, behind = self.chat.header, one[: only.start], one[only.end :]
        if calls.pair is None:
            return find_layout(header, head, behind, None)
        first, second = calls.pair
        if calls.two[: first.start] != head or calls.two[second.end :] != behind:
            raise DetectError("one call is not written as the first, or the last, of two calls")
        return find_layout(header, head, behind, calls.two[first.end : second.start])


def _assemble(written: CallSample, ending: TurnEnding, mixed: Mixed) -> Format:
    layout = written.layout
    closing = "" if written.pair is None else written.closing
    try:
        return Format(
            name="inferred",
            call=build_call(written),
            opening=make_nodes(layout.opening, opens=True) if layout.opening else (),
            closing=make_nodes(closing),
            reasoning=written.chat.reasoning,
            contents=(mixed.content,),
            before=mixed.before or "",
            between=layout.between,
            after=ending.calls[len(written.closing) :],
            ends=ending.ends,
            single=written.pair is None,
        )
    except TypeError as error:
        raise DetectError(str(error)) from error


def name_format(format: Format, *, measured: bool = True) -> Format:
    """The format under the name of the known one that it means.

    Args:
        format: what was inferred.
        measured: what stands between content and calls was seen; if not, the known one tells it.
    """
    for known in NATIVE:
        if _meaning(format) == _meaning(known):
            before = format.before if measured else known.before
            return replace(format, name=known.name, before=before, variants=known.variants)
    return format


def _meaning(format: Format) -> Format:
    """The format without what templates of one family do differently."""
    styled = JsonCall | JsonArguments | TaggedArguments
    nodes = (replace(n, style=JsonStyle()) if isinstance(n, styled) else n for n in format.call)
    return replace(
        format,
        name="",
        call=tuple(nodes),
        reasoning=None,
        before="",
        between="",
        after="",
        ends=(),
        variants=(),
    )


def _tell_content(format: Format) -> str:
    content = format.contents[0]
    how = "as it is"
    if content.opener or content.closer:
        how = f"between {content.opener!r} and {content.closer!r}"
    ends = " or ".join(format.ends) or "nothing"
    return f"content is written {how}; a turn ends with {ends}"


def _tell_call(format: Format) -> str:
    return f"a call is {format.call!r}"


def _tell_calls(format: Format) -> str:
    if format.single:
        return "the template writes one call in a turn"
    texts = {
        "opened by": spell_fixed(format.opening),
        "between them": format.between,
        "closed by": spell_fixed(format.closing),
    }
    parts = [f"{what}: {text!r}" for what, text in texts.items() if text]
    return "; ".join(parts) or "calls stand side by side"
