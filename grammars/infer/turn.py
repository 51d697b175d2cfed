"""Reads the rest of a turn where its calls are known."""

import re
from dataclasses import dataclass, replace

from grammars.errors import DetectError
from grammars.infer.cutting import (
    HARD_TEXT,
    Plain,
    WrittenCalls,
    find_end,
    find_ends,
    find_following,
    probe_calls,
    read_content,
)
from grammars.infer.probes import KEYS, TEXT, VALUES, ProbedTemplate, show_message
from grammars.infer.text import (
    common_prefix,
    common_suffix,
    find_tag,
    find_tags,
    leading_space,
    tokenise,
)
from grammars.turn import Turn
from grammars.wire.format import Content, ContentPlace, LateHeader

_CLOSED_STRING = re.compile(r'"[\s}\]]*')


@dataclass(frozen=True)
class TurnEnding:
    after_calls: str  # before the end
    ends: tuple[str, ...]
    closer: str = ""  # of content
    tail: str = ""  # at the end of every turn, in front of what ends it


@dataclass(frozen=True)
class Mixed:
    """A turn of content and a call, as the template writes it."""

    text: str
    content: Content  # and whether calls may follow
    conclusion: str  # the inferred fact
    # Between content and calls, or in front of calls if content may not precede them; None: not
    # known.
    before: str | None = None
    beside: Content | None = None  # how content is written in front of calls, if in another way
    place: ContentPlace = ContentPlace.BEFORE
    opener: str = ""  # in front of content that is inside of what opens the calls

    @property
    def contents(self) -> tuple[Content, ...]:
        """The ways to write content, the one without calls first."""
        return (self.content,) if self.beside is None else (self.content, self.beside)


@dataclass(frozen=True)
class TurnTexts:
    """What stands around the calls of a turn. `head`: the text that opens every turn once."""

    plain: Plain
    head: str
    ending: TurnEnding
    mixed: Mixed

    @property
    def is_mixed(self) -> bool:
        """True if the template writes content and a call in one turn."""
        return self.mixed.before is not None and TEXT in self.mixed.text


def read_turn(calls: WrittenCalls) -> TurnTexts:
    """Reads what stands around calls; raises a `DetectError` if content cannot be told from
    them."""
    chat, layout, first = calls.chat, calls.layout, calls.first
    plain = read_content(chat)
    head = _find_head(calls, plain)
    if plain.opener.removeprefix(head) and first.startswith(plain.opener):
        raise DetectError(f"calls start like content, with {plain.opener!r}")
    if plain.escaped:
        ending = _infer_escaped_ending(chat, tail=plain.tail, rest=layout.rest)
    else:
        ending = _infer_ending(chat, opener=plain.opener, tail=plain.tail, rest=layout.rest)
    content = Content(
        plain.opener.removeprefix(head),
        ending.closer,
        calls=not plain.escaped,
        escaped=plain.escaped,
        ascii=plain.ascii,
    )
    return TurnTexts(plain, head, ending, _infer_mixed(calls, content, head=head))


def _infer_escaped_ending(chat: ProbedTemplate, *, tail: str, rest: str) -> TurnEnding:
    """As `_infer_ending`, for content in a JSON string, which a quote and brackets close."""
    quote = _CLOSED_STRING.match(tail)
    assert quote is not None  # the text is in a string
    closer = quote.group().rstrip()
    end = find_end(chat, tail, closer=closer)
    if end and end in tail:  # the object may have more members
        closer = tail[: tail.rindex(end)].rstrip()
    after_calls = rest[: rest.rindex(end)] if end and end in rest else rest.rstrip()
    return TurnEnding(after_calls, ends=(end,) if end else (), closer=closer)


def _infer_ending(chat: ProbedTemplate, *, opener: str, tail: str, rest: str) -> TurnEnding:
    """Separates the end of turn from the texts that close content and calls. `tail`, `rest`: what
    stands after content, and after the last call. The template may write an end only before a next
    message."""
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
        ends = find_ends(tail) or find_ends(find_following(chat))
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


def _separates(text: str, prompt: str) -> bool:
    """Returns whether the text can stand between content and calls: white space, or the end of a
    message and the header of another one with which the prompt opens a turn. Calls continue this
    header, so the prompt must leave it open; after a complete header, another turn begins."""
    header = prompt.lstrip()
    is_open = bool(header) and not header[-1].isspace()
    return not text.strip() or (is_open and text.rstrip().endswith(header))


def _show_mixed(chat: ProbedTemplate) -> str:
    return chat.body(Turn(TEXT, calls=probe_calls(chat)[:1])) or ""


def _find_head(calls: WrittenCalls, plain: Plain) -> str:
    """Returns the text that opens every turn once, in front of content (`plain`) and of calls, but
    not between the two; "" if there is none."""
    chat, first, opener = calls.chat, calls.first, plain.opener
    shared = common_prefix(opener, first)
    tags = find_tags(shared)
    opens_turn = chat.ask(opening=True) != chat.ask(opening=False)  # or the role is the model's
    if not tags or not opens_turn:
        return ""
    head = shared[: shared.rindex(tags[-1]) + len(tags[-1])]
    text = chat.strip(_show_mixed(chat))
    before, _, after = text.partition(TEXT)
    is_once = before == opener and head not in after and first.removeprefix(head) in after
    # A text that is closed in front of calls as it is without calls opens content, not the turn.
    is_closed = head == opener and find_tags(after)[:1] == find_tags(plain.tail)[:1]
    return head if is_once and not is_closed else ""


def find_late_header(chat: ProbedTemplate) -> LateHeader | None:
    """Returns the header that the history writes before a turn after a result, where the prompt has
    none."""
    first, second = chat.calls({KEYS[0]: VALUES[0]}, {KEYS[0]: VALUES[1]})
    prompt, plain = chat.ask_after_result(first, opening=True), chat.ask_after_result(first)
    if not prompt or prompt != plain:
        return None
    header = chat.prompt.lstrip()
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
    """Returns the texts that a template writes around every answer: after the generation prompt,
    and in front of the end of turn. Both are "" if the template changes the text of an answer."""
    frames = {_read_frame(chat, text) for text in (TEXT, HARD_TEXT)}
    return frames.pop() if len(frames) == 1 else ("", "")


def _read_frame(chat: ProbedTemplate, answer: str) -> tuple[str, str]:
    prompt, written = chat.ask(opening=True), chat.answer(Turn(answer))
    if not prompt or not written or not written.startswith(prompt):
        return "", ""
    opener, found, tail = chat.strip(written.removeprefix(prompt)).partition(answer)
    if not found:
        return "", ""
    end = find_end(chat, tail)
    closer = tail.rpartition(end)[0] if end else ""
    return opener.strip(), closer.strip()


def _infer_mixed(calls: WrittenCalls, content: Content, *, head: str) -> Mixed:
    """Infers the text between content, which is written so without calls, and calls."""
    chat, between = calls.chat, calls.layout.between
    first, turn = (text.removeprefix(head) for text in (calls.first, calls.one))
    is_plain = not content.opener and not content.closer
    alone = replace(content, calls=is_plain)
    if content.escaped:
        return Mixed(turn, alone, "content is a JSON string, which no call follows")
    body = _show_mixed(chat)
    text = chat.strip(body).removeprefix(head)
    opener, found, after = text.partition(TEXT)
    if not found and TEXT in body and chat.reasoning and chat.reasoning.next_opener:
        # Each part of a turn is a message, and the template does not show what models write here.
        raise DetectError(f"beside a call, content is written as a thought: {body[:80]!r}")
    ends_message = bool(between.strip()) and _separates(between, chat.prompted)
    if not found and content.opener and not content.closer and ends_message:
        conclusion = (
            "content is dropped next to a call; it may be a message of its own, as calls are"
        )
        return Mixed(
            text, content=replace(content, calls=True), conclusion=conclusion, before=between
        )
    if not found:
        return Mixed(text, alone, "content next to a call is rejected or dropped")
    before, found, _ = after.partition(first)
    if is_plain and opener.startswith(first) and opener + after == turn:
        return Mixed(text, content, "content stands after calls", place=ContentPlace.AFTER)
    if is_plain and opener and first.startswith(opener) and opener + after == turn:
        conclusion = f"content is written inside the opening of the calls, after {opener!r}"
        return Mixed(text, content, conclusion, place=ContentPlace.INSIDE, opener=opener)
    if not found:
        return Mixed(text, alone, "content and calls are not written in one turn")
    if opener != content.opener:
        beside = Content(opener)
        if content.closer or not _separates(before, chat.prompted):
            raise DetectError(f"beside a call, content is written in another way: {opener!r}")
        conclusion = f"content before calls is opened with {opener!r}, not with {content.opener!r}"
        return Mixed(text, alone, conclusion, before, beside=beside)
    separator = before.removeprefix(content.closer)
    if not before.startswith(content.closer) or not _separates(separator, chat.prompted):
        return Mixed(text, alone, f"content and a call stand apart: {before!r}")
    return Mixed(text, content, "content stands before calls", separator)
