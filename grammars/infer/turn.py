"""Finds the fixed texts around content and calls, and those that end a turn."""

import json
import re
from dataclasses import dataclass, replace

from grammars.errors import DetectError
from grammars.infer.probes import KEYS, TEXT, VALUES, ProbedTemplate, show_message
from grammars.infer.text import (
    common_prefix,
    common_suffix,
    find_tag,
    find_tags,
    leading_space,
    split_numbers,
    tokenise,
)
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Content, ContentPlace, LateHeader, count_common

_CLOSED_STRING = re.compile(r'"[\s}\]]*')
_HARD_TEXT = 'PROBE "quoted" \\ <b>\n\n- ü'


@dataclass(frozen=True)
class CallLayout:
    """The fixed texts around calls: `opening prefix CALL suffix between ... rest`.

    Args:
        rest: the text after the last call: the text that closes the calls, and the end of the turn.
        lead: the beginning of the first call, which the generation prompt has written.
        several: the texts around two calls, if they are others than those around one.
        opens_part: a call begins right after the header of a message that all parts of a turn have,
            and content there begins with a text of its own.
    """

    rest: str
    opening: str = ""
    prefix: str = ""
    suffix: str = ""
    between: str = ""
    lead: str = ""
    several: "CallLayout | None" = None
    opens_part: bool = False

    def without_lead(self, *, opens_part: bool) -> "CallLayout":
        """Returns the layout with the text of the generation prompt between two calls instead of in
        a call."""
        return replace(
            self,
            prefix=self.prefix.removeprefix(self.lead),
            between=self.between + self.lead,
            lead="",
            opens_part=opens_part,
        )


def find_layout(
    *, header: str, head: str, after: str, amid: str | None, end: str = ""
) -> CallLayout:
    """Separates a call's own text from the text around all calls.

    Args:
        header: what opens the turn.
        head: the text in front of the first call's first hole.
        after: the text after the only call's last hole.
        amid: the text between two calls' holes; None if there is one call in a turn.
        end: what ends a turn of content; "" if that is not known. It is not a part of a call,
            because a model that ends its turn there writes nothing after it.
    """
    if amid is None:  # Llama 3's templates refuse a second call
        return CallLayout(after, prefix=head)
    prefix = common_suffix(header + head, amid).lstrip()
    lead = ""
    if len(prefix) > len(head):
        lead = prefix[: len(prefix) - len(head)]
        if _begins_part(lead, header):  # Functionary 3.2: the prompt ends with `>>>`
            head = prefix
        else:  # `(call)` ends with a sign that `(assistant)` ends with, too
            prefix, lead = head, ""
    suffix = common_prefix(amid, after).rstrip()
    if len(prefix) + len(suffix) > len(amid):
        suffix = suffix[: len(amid) - len(prefix)].rstrip()
    if end and suffix.endswith(end):
        suffix = suffix.removesuffix(end).rstrip()
    return CallLayout(
        rest=after[len(suffix) :],
        opening=head[: len(head) - len(prefix)],
        prefix=prefix,
        suffix=suffix,
        between=amid[len(suffix) : len(amid) - len(prefix)],
        lead=lead,
    )


def _begins_part(lead: str, header: str) -> bool:
    """Returns whether the text at the end of a header is not the end of a word between signs, or of
    another text: nothing precedes it, or a line break, or a tag."""
    before = header.removesuffix(lead)
    tags = find_tags(before)
    return not before or before.endswith("\n") or bool(tags and before.endswith(tags[-1]))


def _drop_numbers(text: str) -> str:
    return "".join(part for part in split_numbers(text) if not part.isdecimal())


def find_layouts(one: tuple[str, str], two: tuple[str, str], amid: str) -> CallLayout:
    """Returns the texts around one call, and those around two calls if they differ.

    Args:
        one: the text in front of the first hole of a call alone, and after its last one.
        two: the same of two calls.
        amid: the text between two calls' holes.

    Raises:
        DetectError: nothing opens two calls that does not open one.
    """
    prefix = common_suffix(one[0], two[0], amid).lstrip()
    amid = amid.removesuffix(prefix)
    suffix = common_prefix(one[1], two[1], amid).rstrip()
    opening_one, opening_two = (text.removesuffix(prefix) for text in (one[0], two[0]))
    rest_one, rest_two = (text[len(suffix) :] for text in (one[1], two[1]))
    if _drop_numbers(one[0]) == _drop_numbers(two[0]) and one[0] != two[0]:
        raise DetectError(f"calls tell how many they are: {one[0]!r} and {two[0]!r}")
    if not opening_two or opening_one == opening_two:
        raise DetectError("one call is not written as the first, or the last, of two calls")
    several = CallLayout(
        rest_two, opening=opening_two, prefix=prefix, suffix=suffix, between=amid[len(suffix) :]
    )
    return CallLayout(rest_one, opening=opening_one, prefix=prefix, suffix=suffix, several=several)


@dataclass(frozen=True)
class Plain:
    """A turn of content without calls: the text that opens it, and everything after it.

    Args:
        escaped: the content is in a JSON string.
        ascii: there, characters beyond ASCII are escaped.
    """

    opener: str
    tail: str
    escaped: bool = False
    ascii: bool = False


@dataclass(frozen=True)
class TurnEnding:
    """The text after the calls, and the texts that end a turn.

    Args:
        after_calls: the text after the last call before the end.
        ends: the texts that end a turn.
        closer: what closes content.
        tail: the text at the end of every turn, in front of what ends it.
    """

    after_calls: str
    ends: tuple[str, ...]
    closer: str = ""
    tail: str = ""


def infer_escaped_ending(chat: ProbedTemplate, *, tail: str, rest: str) -> TurnEnding:
    """Separates the end of turn from what closes calls, and from what closes content in a JSON
    string: the quote and the brackets after it.

    Args:
        chat, tail, rest: as for `infer_ending`.
    """
    quote = _CLOSED_STRING.match(tail)
    assert quote is not None  # the text is in a string
    closer = quote.group().rstrip()
    end = find_end(chat, tail, closer=closer)
    if end and end in tail:  # the object may have more members
        closer = tail[: tail.rindex(end)].rstrip()
    after_calls = rest[: rest.rindex(end)] if end and end in rest else rest.rstrip()
    return TurnEnding(after_calls, ends=(end,) if end else (), closer=closer)


def infer_ending(chat: ProbedTemplate, *, opener: str, tail: str, rest: str) -> TurnEnding:
    """Separates the end of turn from the texts that close content and calls.

    Args:
        chat: the template, for an end that it only writes before a next message.
        opener: what opens content.
        tail: what the template writes after content.
        rest: the text that it writes after the last call.
    """
    shared = common_suffix(tail, rest)
    if shared.strip():
        after_calls = rest.removesuffix(shared) + leading_space(shared)
        closer = tail.removesuffix(shared)
        if not opener:
            end = find_end(chat, tail)
            if end in closer:  # what follows belongs to the next turn
                return TurnEnding(after_calls, find_ends(tail))
            if find_tag(closer):
                raise DetectError(f"content is closed with {closer!r}, which nothing opens")
        end = find_end(chat, tail, closer=closer)
        before, found, _ = shared.rpartition(end)
        return TurnEnding(
            after_calls,
            ends=(end,) if end else (),
            closer=closer if opener and closer.strip() else "",
            tail=before.strip() if found else "",
        )
    if not tail.strip() or not rest.strip():  # some write the end when the next message comes
        ends = find_ends(tail) or find_ends(_follow(chat))
        after_calls = rest
        if ends and ends[0] in rest:
            after_calls = rest[: rest.rindex(ends[0])]
        return TurnEnding(after_calls, ends)
    *_, last = tokenise(rest.rstrip())
    ends = find_ends(tail)
    if not find_tag(last):
        return TurnEnding(rest.rstrip(), ends)
    after_calls = rest.rstrip().removesuffix(last)
    if ends and ends[0] in after_calls:  # HyperCLOVAX ends a call with it, and with another tag
        after_calls = after_calls[: after_calls.rindex(ends[0])]
    return TurnEnding(after_calls, tuple(dict.fromkeys([*ends, last])))


def find_end(chat: ProbedTemplate, tail: str, *, closer: str = "") -> str:
    """Returns the text that ends a turn; "" if there is none.

    If there are several tags before a next message, it is the last one that also ends the user's
    messages, or else the last one. (Some templates, such as Phi's, write another tag at the end of
    a conversation.)

    Args:
        tail: the text after content.
        closer: the part of it that closes the content.
    """
    ending = tail.removeprefix(closer)
    tags = find_tags(common_prefix(_follow(chat).removeprefix(closer), ending))
    of_user = find_tags(chat.ask() or "")
    if usual := [tag for tag in tags if tag in of_user]:
        return usual[-1]
    return tags[-1] if tags else "".join(find_ends(ending))


def find_closer(tail: str, opener: str) -> str:
    """Returns the text that closes content: the first of several tags after it, if a text opens the
    content. Else ""."""
    tags = find_tags(tail)
    return tail[: tail.index(tags[0]) + len(tags[0])] if opener and len(tags) > 1 else ""


def find_ends(text: str) -> tuple[str, ...]:
    """Returns the texts that can end a turn: the first tag after its content, or all of that text
    if it has no tag. What follows the tag belongs to the next turn."""
    tag = find_tag(text)
    end = tag[0] if tag else text.strip()
    return (end,) if end else ()


def _follow(chat: ProbedTemplate) -> str:
    """Returns the end of turn that a template writes in front of the next message, without that
    message's header."""
    after = chat.follow()
    return after.removesuffix(common_suffix(after, chat.introduce()))


def read_content(chat: ProbedTemplate) -> Plain:
    """Returns the texts around the content of a turn without calls.

    Raises:
        DetectError: the template does not write content.
    """
    opener, found, tail = chat.read(Turn(TEXT)).partition(TEXT)
    if not found:
        raise DetectError("the chat template writes no content")
    is_quoted = opener.endswith('"') and tail.startswith('"')
    hard = chat.body(Turn(_HARD_TEXT)) if is_quoted else None
    for ascii in (False, True):
        escaped = json.dumps(_HARD_TEXT, ensure_ascii=ascii)[1:-1]
        if hard is not None and opener + escaped + tail in hard:
            return Plain(opener, tail, escaped=True, ascii=ascii)
    return Plain(opener, tail)


def _separates(text: str, prompt: str) -> bool:
    """Returns whether the text can stand between content and calls: white space, or the end of a
    message and the header of another one with which the prompt opens a turn. Calls continue this
    header, so the prompt must leave it open; after a complete header, another turn begins."""
    header = prompt.lstrip()
    is_open = bool(header) and not header[-1].isspace()
    return not text.strip() or (is_open and text.rstrip().endswith(header))


def _ends_message(between: str, chat: ProbedTemplate) -> bool:
    """Returns whether the text between two calls ends a message and begins another one."""
    return bool(between.strip()) and _separates(between, chat.prompted)


@dataclass(frozen=True)
class Mixed:
    """A turn of content and a call, as the template writes it.

    Args:
        text: the turn.
        content: how content is written, and whether calls may follow.
        conclusion: the inferred fact.
        before: the text between content and calls, or in front of calls if content may not precede
            them; None: not known.
        beside: how content is written in front of calls, if in another way than without them.
        place: where content is.
        opener: the text in front of content that is inside of what opens the calls.
    """

    text: str
    content: Content
    conclusion: str
    before: str | None = None
    beside: Content | None = None
    place: ContentPlace = ContentPlace.BEFORE
    opener: str = ""

    @property
    def contents(self) -> tuple[Content, ...]:
        """The ways to write content, the one without calls first."""
        return (self.content,) if self.beside is None else (self.content, self.beside)


def find_head(chat: ProbedTemplate, plain: Plain, *, call: ToolCall, first: str) -> str:
    """Returns the text that opens every turn once, in front of content and of calls, but not
    between the two. "" if there is none.

    Args:
        chat: the template.
        plain: content without calls.
        call: a call.
        first: what the first call begins with, and the text in front of that.
    """
    opener = plain.opener
    shared = common_prefix(opener, first)
    tags = find_tags(shared)
    opens_turn = chat.ask(opening=True) != chat.ask(opening=False)  # or the role is the model's
    if not tags or not opens_turn:
        return ""
    head = shared[: shared.rindex(tags[-1]) + len(tags[-1])]
    text = chat.strip(chat.body(Turn(TEXT, calls=(call,))) or "")
    before, _, after = text.partition(TEXT)
    is_once = before == opener and head not in after and first.removeprefix(head) in after
    # A text that is closed in front of calls as it is without calls opens content, not the turn.
    is_closed = head == opener and find_tags(after)[:1] == find_tags(plain.tail)[:1]
    return head if is_once and not is_closed else ""


def find_late_header(chat: ProbedTemplate) -> LateHeader | None:
    """Returns the header that the history writes in front of a turn after a result, where the
    generation prompt is empty; None if there is none."""
    first, second = chat.calls({KEYS[0]: VALUES[0]}, {KEYS[0]: VALUES[1]})
    prompt, plain = chat.ask_after_result(first, opening=True), chat.ask_after_result(first)
    opened, header = chat.ask(opening=True), chat.ask()
    if not prompt or prompt != plain or not opened or header is None:
        return None
    header = opened[count_common(opened, header) :].lstrip()
    if chat.reasoning is not None:
        header = header.partition(chat.reasoning.opener.text)[0]
    if not header.strip() or prompt.rstrip().endswith(header.rstrip()):
        return None
    content = chat.ask_after_result(first, show_message(Turn(TEXT))) or ""
    calls = chat.ask_after_result(first, show_message(Turn(calls=(second,)))) or ""
    late = LateHeader(
        header,
        before_content=content.startswith(prompt + header),
        before_calls=calls.startswith(prompt + header),
    )
    return late if late.before_content or late.before_calls else None


def find_frame(chat: ProbedTemplate) -> tuple[str, str]:
    """Returns the texts that a template writes around every answer: the one after the generation
    prompt, and the one in front of the end of turn. "" if there is none.

    Both are "" if the template changes the text of an answer.
    """
    frames = {_read_frame(chat, text) for text in (TEXT, _HARD_TEXT)}
    return frames.pop() if len(frames) == 1 else ("", "")


def _read_frame(chat: ProbedTemplate, answer: str) -> tuple[str, str]:
    """Returns the texts around this answer."""
    prompt, written = chat.ask(opening=True), chat.answer(Turn(answer))
    if not prompt or not written or not written.startswith(prompt):
        return "", ""
    opener, found, tail = chat.strip(written.removeprefix(prompt)).partition(answer)
    if not found:
        return "", ""
    end = find_end(chat, tail)
    closer = tail.rpartition(end)[0] if end else ""
    return opener.strip(), closer.strip()


def infer_mixed(
    chat: ProbedTemplate,
    content: Content,
    *,
    call: ToolCall,
    first: str,
    turn: str,
    turn_head: str,
    between: str,
) -> Mixed:
    """Infers the text between content and calls.

    Args:
        chat: the template.
        content: how content is written if no call follows.
        call: a call.
        first: what the first call begins with.
        turn: the turn with that call alone.
        turn_head: what opens every turn, which the other texts are without.
        between: the text between two calls.

    Raises:
        DetectError: in front of a call, content is written in another way.
    """
    is_plain = not content.opener and not content.closer
    alone = replace(content, calls=is_plain)
    if content.escaped:
        return Mixed(turn, alone, "content is a JSON string, which no call follows")
    body = chat.body(Turn(TEXT, calls=(call,))) or ""
    text = chat.strip(body).removeprefix(turn_head)
    head, found, after = text.partition(TEXT)
    if not found and TEXT in body and chat.reasoning and chat.reasoning.next_opener:
        # Each part of a turn is a message, and the template does not show what models write here.
        raise DetectError(f"beside a call, content is written as a thought: {body[:80]!r}")
    if not found and content.opener and not content.closer and _ends_message(between, chat):
        conclusion = (
            "content is dropped next to a call; it may be a message of its own, as calls are"
        )
        return Mixed(
            text, content=replace(content, calls=True), conclusion=conclusion, before=between
        )
    if not found:
        return Mixed(text, alone, "content next to a call is rejected or dropped")
    before, found, _ = after.partition(first)
    if is_plain and head.startswith(first) and head + after == turn:
        return Mixed(text, content, "content stands after calls", place=ContentPlace.AFTER)
    if is_plain and head and first.startswith(head) and head + after == turn:
        conclusion = f"content is written inside the opening of the calls, after {head!r}"
        return Mixed(text, content, conclusion, place=ContentPlace.INSIDE, opener=head)
    if not found:
        return Mixed(text, alone, "content and calls are not written in one turn")
    if head != content.opener:
        beside = Content(head)
        if content.closer or not _separates(before, chat.prompted):
            raise DetectError(f"beside a call, content is written in another way: {head!r}")
        conclusion = f"content before calls is opened with {head!r}, not with {content.opener!r}"
        return Mixed(text, alone, conclusion, before, beside=beside)
    separator = before.removeprefix(content.closer)
    if not before.startswith(content.closer) or not _separates(separator, chat.prompted):
        return Mixed(text, alone, f"content and a call stand apart: {before!r}")
    return Mixed(text, content, "content stands before calls", separator)
