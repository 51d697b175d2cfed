"""What stands around content, and what ends a turn."""

from dataclasses import dataclass

from grammars.errors import DetectError
from grammars.infer.probes import TEXT, ProbedTemplate
from grammars.infer.text import common_suffix, find_tag, tokenise
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Content


@dataclass(frozen=True)
class TurnEnding:
    """What follows the calls, and what ends a turn.

    Args:
        calls: what stands behind the last call before the end.
        closer: what closes content.
        ends: the texts that end a turn.
    """

    calls: str
    closer: str
    ends: tuple[str, ...]


def infer_ending(chat: ProbedTemplate, opener: str, tail: str, rest: str) -> TurnEnding:
    """Tells the end of turn from what closes content and calls.

    Args:
        chat: for the end that only stands in front of a next message.
        opener: what opens content.
        tail: what the template writes behind content.
        rest: what it writes behind the last call.
    """
    shared = common_suffix(tail, rest)
    if shared.strip():
        calls = rest[: len(rest) - len(shared)] + _leading_space(shared)
        if not opener:
            return TurnEnding(calls, closer="", ends=_find_ends(tail))
        closer = tail[: len(tail) - len(shared)]
        return TurnEnding(calls, closer, ends=_find_ends(shared))
    if not tail.strip() or not rest.strip():  # some write the end when the next message comes
        ends = _find_ends(tail if tail.strip() else _follow(chat))
        calls = rest
        if ends and ends[0] in rest:
            calls = rest[: rest.rindex(ends[0])]
        return TurnEnding(calls, closer="", ends=ends)
    last = tokenise(rest.rstrip())[-1]
    tag = last if find_tag(last) else ""
    calls = rest.rstrip().removesuffix(tag)
    ends = tuple(dict.fromkeys([*_find_ends(tail), *_find_ends(tag)]))
    return TurnEnding(calls, closer="", ends=ends)


def _find_ends(text: str) -> tuple[str, ...]:
    end = _first_tag(text)
    return (end,) if end else ()


def _first_tag(text: str) -> str:
    """What ends a turn; what templates write behind it belongs to the next one."""
    tag = find_tag(text)
    return tag[0] if tag else text.strip()


def _leading_space(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _follow(chat: ProbedTemplate) -> str:
    """The end that a template writes when the next message comes, without its header."""
    behind = chat.follow()
    return behind.removesuffix(common_suffix(behind, chat.introduce()))


@dataclass(frozen=True)
class Plain:
    """Content as a turn without calls has it: what opens it, and all that follows."""

    opener: str
    tail: str


def read_content(chat: ProbedTemplate) -> Plain:
    """What stands around the text of a turn without calls.

    Raises:
        DetectError: the template does not write content.
    """
    opener, found, tail = chat.read(Turn(TEXT)).partition(TEXT)
    if not found:
        raise DetectError("the chat template writes no content")
    return Plain(opener, tail)


@dataclass(frozen=True)
class Mixed:
    """Content beside a call: how it is written, what stands between the two; None: unknown."""

    content: Content
    before: str | None
    text: str
    note: str


def infer_mixed(
    chat: ProbedTemplate, call: ToolCall, first: str, *, opener: str, closer: str
) -> Mixed:
    """What stands between content and calls.

    Args:
        chat: the template.
        call: a call.
        first: what the first call begins with.
        opener, closer: what stands around content where no call follows.

    Raises:
        DetectError: beside a call, content is written in another way.
    """
    is_plain = not opener and not closer
    lost = Content(opener, closer, calls=is_plain)
    body = chat.body(Turn(TEXT, calls=(call,)))
    text = chat.strip(body) if body is not None else ""
    head, found, behind = text.partition(TEXT)
    place = behind.find(first)
    if not found:
        return Mixed(lost, None, text, "content beside a call is refused or left out")
    if place < 0:
        return Mixed(lost, None, text, "content and calls are not written in one turn")
    if head != opener:
        raise DetectError(f"beside a call, content is written in another way: {head!r}")
    before = behind[:place]
    if not before.startswith(closer) or before.removeprefix(closer).strip():
        return Mixed(lost, None, text, f"content and a call stand apart: {before!r}")
    content = Content(opener, closer)
    return Mixed(content, before.removeprefix(closer), text, "content stands before calls")
