"""Cuts the calls out of what a template writes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal as OneOf

from grammars.errors import DetectError
from grammars.infer.arguments import find_style
from grammars.infer.probes import AGAIN, KEYS, TEXT, USER, VALUES, ProbedTemplate, show_message
from grammars.infer.text import (
    common_prefix,
    common_suffix,
    drop_numbers,
    find_tag,
    find_tags,
    leading_space,
    split_numbers,
)
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_object
from grammars.turn import ToolCall, Turn

# A header that goes on with a word of each part: `<|start|>assistant`, `<|msg|>assistant/`,
# `{"role": "assistant", "kind": "`. In the middle of a tag, the whole tag is the marker.
_OPEN_HEADER = re.compile(r"(?:^|>)[^<>]*\w[^\w\n<>\[\]]*$")

Kind = OneOf["text", "name", "id", "index", "call", "arguments", "encoded", "tagged"]
_WITH_ARGUMENTS: tuple[Kind, ...] = ("call", "arguments", "encoded", "tagged")
_WHOLE: tuple[Kind, ...] = ("arguments", "encoded")  # that tell their own end


@dataclass(frozen=True)
class Piece:
    """A part of a call: fixed text, or the text of a hole."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Cut:
    """A call that was found in a text, from its first hole to its last."""

    start: int
    end: int
    pieces: tuple[Piece, ...]

    @property
    def arguments(self) -> Piece:
        return next(piece for piece in self.pieces if piece.kind in _WITH_ARGUMENTS)

    @property
    def is_whole(self) -> bool:
        """True if the end of the arguments is clear without the text after them."""
        return self.arguments.kind != "tagged"

    @property
    def bounds(self) -> tuple[int, int]:
        """The offsets at which the piece with the arguments begins and ends."""
        before = list(takewhile(lambda piece: piece.kind not in _WITH_ARGUMENTS, self.pieces))
        start = self.start + sum(len(piece.text) for piece in before)
        return start, start + len(self.arguments.text)

    def extend(self, text: str, *, before: int = 0, after: int = 0) -> "Cut":
        """Returns the call with so many characters of the text around it."""
        start, end = self.start - before, self.end + after
        around = Piece("text", text[start : self.start]), Piece("text", text[self.end : end])
        pieces = (around[0], *self.pieces, around[1])
        return Cut(start, end, tuple(piece for piece in pieces if piece.text))


def cut_call(text: str, call: ToolCall, start: int = 0, *, one_by_one: bool = False) -> Cut | None:
    """Finds a call of one argument, a text, after `start`. `one_by_one`: the arguments are in the
    braces of an object that is not JSON, and are read one by one."""
    arguments = _find_arguments(text, call, start, one_by_one=one_by_one)
    if arguments is None:
        return None
    holes = [arguments]
    if arguments.kind != "call":
        holes += _find_name_and_id(text, call, arguments, start)
    holes.sort(key=lambda hole: hole.start)
    pieces: list[Piece] = []
    end = holes[0].start
    for hole in holes:
        if hole.start > end:
            pieces.append(Piece("text", text[end : hole.start]))
        pieces.append(Piece(hole.kind, text[hole.start : hole.end]))
        end = hole.end
    return Cut(holes[0].start, end, tuple(pieces))


@dataclass(frozen=True)
class CallPair:
    """A turn of two calls."""

    text: str
    first: Cut
    second: Cut

    @property
    def amid(self) -> str:
        return self.text[self.first.end : self.second.start]

    def take_counters(self, one: str, only: Cut) -> tuple["CallPair", Cut]:
        """Returns the pair, and the single call `only` of the turn `one`, each with the text up to
        the number that counts calls, where that stands in front of the first hole or behind the
        last one."""
        pair = self
        head, amid = split_numbers(self.text[: self.first.start]), split_numbers(self.amid)
        size = _find_count(head[::-1], amid[::-1])
        counted, next_counted = ("".join(words[len(words) - size :]) for words in (head, amid))
        if size and one[: only.start].endswith(counted):
            first = self.first.extend(self.text, before=len(counted))
            second = self.second.extend(self.text, before=len(next_counted))
            pair = replace(pair, first=first, second=second)
            only = only.extend(one, before=len(counted))
        rest = split_numbers(one[only.end :])
        next_rest = split_numbers(self.text[pair.second.end :])
        size = _find_count(rest, next_rest)
        counted, next_counted = ("".join(words[:size]) for words in (rest, next_rest))
        if size and only.is_whole and pair.amid.startswith(counted):
            first = pair.first.extend(self.text, after=len(counted))
            second = pair.second.extend(self.text, after=len(next_counted))
            pair = replace(pair, first=first, second=second)
            only = only.extend(one, after=len(counted))
        return pair, only


def _find_count(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns how many words there are up to the first one that differs, if that is a number and
    one higher in the second text; 0 if it is not."""
    for place, (one, two) in enumerate(zip(first, second, strict=False)):
        if one != two:
            return place + 1 if follows(one, two) else 0
    return 0


def follows(one: str, two: str) -> bool:
    """Returns whether the second word is the first number plus one."""
    return one.isdecimal() and two == str(int(one) + 1)


def find_member(text: str, key: str, value: str, *, start: int) -> re.Match[str] | None:
    """Finds an object with one text in it, in any style, from `start` on. The group `quote` is the
    text around the string."""
    name = rf"(?P<mark>[\"']?){re.escape(key)}(?P=mark)"
    written = rf"(?P<quote>\S{{1,16}}?){re.escape(value)}(?P=quote)"
    return re.compile(rf"\{{{name}\s*:\s*{written}\}}").search(text, start)


def _find_json(text: str, start: int, opener: str) -> Iterator[tuple[Json, int, int]]:
    """Yields the JSON values from `start` on that begin with a pattern, with their bounds."""
    decoder = json.JSONDecoder()
    for place in re.compile(opener).finditer(text, start):
        try:
            value, end = decoder.raw_decode(text, place.start())
        except (ValueError, RecursionError):
            continue
        yield value, place.start(), end


@dataclass(frozen=True)
class _Hole:
    kind: Kind
    start: int
    end: int


def _find_arguments(text: str, call: ToolCall, start: int, *, one_by_one: bool) -> _Hole | None:
    for string, begin, end in _find_json(text, start, r'"\s*\{'):
        inner = str(string).strip()
        for written, _, length in _find_json(inner, 0, r"^\{"):
            if written == call.arguments and length == len(inner):
                return _Hole("encoded", begin, end)
    for written, begin, end in _find_json(text, start, r"\{"):
        assert is_object(written)
        around = text[start:begin] + text[end:]
        if _writes_id(around, call):
            pass  # the object is a part of the call: the call's id is outside the object
        elif _is_json_call(written, text[begin:end], call):
            return _Hole("call", begin, end)
        if written == call.arguments:
            return _Hole("arguments", begin, end)
    [(key, value)] = call.arguments.items()
    member = None if one_by_one else find_member(text, key, str(value), start=start)
    if member:
        return _Hole("arguments", member.start(), member.end())
    name_start = text.find(call.name, start)
    key_start = text.find(key, name_start + len(call.name))
    value_start = text.find(str(value), key_start + len(key))
    if min(name_start, key_start, value_start) < 0:
        return None
    return _Hole("tagged", key_start, value_start + len(str(value)))


def _is_json_call(written: Mapping[str, Json], text: str, call: ToolCall) -> bool:
    """Returns whether a `JsonCall` can describe the object: the name, then the arguments, and at
    most one other member (the id or the number) before or after them. Any other object becomes
    fixed text with holes."""
    values = list(written.values())
    if call.name not in values or call.arguments not in values:
        return False
    name, arguments = values.index(call.name), values.index(call.arguments)
    others = [value for i, value in enumerate(values) if i not in (name, arguments)]
    is_id = all(
        value == call.id or (isinstance(value, str) and value.isdecimal()) for value in others
    )
    is_ordered = arguments == name + 1 and len(others) <= 1
    return is_ordered and is_id and find_style((dict(written), text)) is not None


def _writes_id(text: str, call: ToolCall) -> bool:
    # If an id contains the name, the name is searched.
    return bool(call.id) and call.name not in str(call.id) and str(call.id) in text


def _find_name_and_id(text: str, call: ToolCall, arguments: _Hole, start: int) -> Iterator[_Hole]:
    """Finds the name and the id in front of the arguments; what is not there is searched after
    them."""
    sought: list[tuple[Kind, str]] = [("name", call.name)]
    if call.id and _writes_id(text, call):
        sought.append(("id", call.id))
    for kind, written in sought:
        places = list(re.compile(re.escape(written)).finditer(text, start, arguments.start))
        if not places and arguments.kind in _WHOLE:
            places = list(re.compile(re.escape(written)).finditer(text, arguments.end))[:1]
        for match in places:
            yield _Hole(kind, match.start(), match.end())
    if call.name in text[start : arguments.start]:  # `</NAME>`, `[/TOOL:NAME]` closes a call
        closing = re.compile(rf"\b{re.escape(call.name)}\b").search(text, arguments.end)
        if closing:
            yield _Hole("name", closing.start(), closing.end())


@dataclass(frozen=True)
class CallLayout:
    """The fixed texts around calls: `opening prefix CALL suffix between ... rest`."""

    rest: str  # what closes the calls, and the end of the turn
    opening: str = ""
    prefix: str = ""
    suffix: str = ""
    between: str = ""
    lead: str = ""  # the beginning of the first call, which the generation prompt has written
    several: "CallLayout | None" = None  # around two calls, if others than around one
    # A call begins right after the header of a message that all parts of a turn have, and content
    # there begins with a text of its own.
    opens_part: bool = False

    def without_lead(self, *, opens_part: bool) -> "CallLayout":
        """Returns the layout with the lead between two calls instead of in a call."""
        return replace(
            self,
            prefix=self.prefix.removeprefix(self.lead),
            between=self.between + self.lead,
            lead="",
            opens_part=opens_part,
        )


def find_layout(
    one: tuple[str, str], two: tuple[str, str], amid: str, *, header: str, end: str
) -> CallLayout:
    """Separates a call's own text from the text around all calls. `one`, `two`: the texts around
    the holes of a call alone, and of two calls; `amid`: between the two; `header`: what opens the
    turn, "" if the texts around two calls are others; `end`: what ends a turn of content. It is no
    part of a call, because a model that ends its turn there writes nothing after it."""
    head, after = one
    prefix = common_suffix(header + head, header + two[0], amid).lstrip()
    lead = ""
    if len(prefix) > len(head):
        lead = prefix[: len(prefix) - len(head)]
        if _begins_part(lead, header):  # Functionary 3.2: the prompt ends with `>>>`
            head = prefix
        else:  # `(call)` ends with a sign that `(assistant)` ends with, too
            prefix, lead = head, ""
    suffix = common_prefix(amid, after, two[1]).rstrip()
    if len(prefix) + len(suffix) > len(amid):
        suffix = suffix[: len(amid) - len(prefix)].rstrip()
    if end and suffix.endswith(end):
        suffix = suffix.removesuffix(end).rstrip()
    layout = CallLayout(
        rest=after[len(suffix) :],
        opening=head[: len(head) - len(prefix)],
        prefix=prefix,
        suffix=suffix,
        between=amid[len(suffix) : len(amid) - len(prefix)],
        lead=lead,
    )
    if one == two:
        return layout
    several = replace(layout, rest=two[1][len(suffix) :], opening=two[0].removesuffix(prefix))
    if drop_numbers(one[0]) == drop_numbers(two[0]) and one[0] != two[0]:
        raise DetectError(f"calls tell how many they are: {one[0]!r} and {two[0]!r}")
    if several.opening in ("", layout.opening):
        raise DetectError("one call is not written as the first, or the last, of two calls")
    return replace(layout, between="", several=several)


def _begins_part(lead: str, header: str) -> bool:
    """Whether the text at the end of a header is not the end of a word between signs, or of another
    text."""
    before = header.removesuffix(lead)
    tags = find_tags(before)
    return not before or before.endswith("\n") or bool(tags and before.endswith(tags[-1]))


@dataclass(frozen=True)
class WrittenCalls:
    """A turn with one call and a turn with two calls, as the template writes them."""

    chat: ProbedTemplate  # its lead is that of the layout
    one: str
    two: str
    only: Cut  # the call in `one`
    pair: CallPair | None  # the calls in `two`; None if they are not both there
    layout: CallLayout
    # The white space in front of calls, if the prompt has already written all of the header that
    # every message of the role has; None: it has not.
    gap: str | None = None
    closing: str = ""  # the text after the last call; after the only one it is part of the call

    @property
    def first(self) -> str:
        """The first call, and the text in front of it, without the lead."""
        layout = self.layout
        return layout.opening + layout.prefix + self.one[self.only.start : self.only.end]

    @property
    def suffix(self) -> str:
        """The text from a call's last hole to the end of the call."""
        return self.layout.suffix if self.pair else self.closing


def probe_calls(chat: ProbedTemplate) -> tuple[ToolCall, ...]:
    return chat.calls({KEYS[0]: VALUES[0]}, {KEYS[0]: VALUES[1]})


def read_calls(chat: ProbedTemplate, *, one_by_one: bool) -> WrittenCalls:
    """Reads a turn of one call and a turn of two; raises a `DetectError` if none is found, or they
    differ. `one_by_one`: arguments are read one by one, although they are in braces."""
    first, second = probe_calls(chat)
    one = chat.read(Turn(calls=(first,)))
    only = cut_call(one, first, one_by_one=one_by_one)
    if only is None and KEYS[0] not in one:
        raise DetectError(f"calls do not name their arguments as the schemas do: {one!r}")
    if only is None:
        raise DetectError(f"neither JSON nor tags with values in {one!r}")
    if first.id and one.count(first.id) > 1:
        message = "the id of a call is written twice, and no grammar can compare the two"
        raise DetectError(f"{message}: {one!r}")
    two = chat.strip(chat.body(Turn(calls=(first, second))) or "")
    pair = None
    first_cut = cut_call(two, first, one_by_one=one_by_one)
    if first_cut and (cut := cut_call(two, second, first_cut.end, one_by_one=one_by_one)):
        pair, only = CallPair(two, first_cut, cut).take_counters(one, only)
    calls = WrittenCalls(chat, one, two, only, pair, _lay_out(chat, one, only, pair))
    return _take_lead(calls) if calls.layout.lead else calls


def _lay_out(chat: ProbedTemplate, one: str, only: Cut, pair: CallPair | None) -> CallLayout:
    head, following = one[: only.start], one[only.end :]
    if pair is None:  # Llama 3's templates refuse a second call
        return CallLayout(following, prefix=head)
    around_two = pair.text[: pair.first.start], pair.text[pair.second.end :]
    if around_two != (head, following):
        return find_layout((head, following), around_two, pair.amid, header="", end="")
    # White space that is not read may part the header from a word of the call.
    header = chat.prompted + leading_space(chat.body(Turn(calls=probe_calls(chat)[:1])) or "")
    plain = read_content(chat)
    end = find_end(chat, plain.tail, closer=find_closer(plain.tail, plain.opener))
    return find_layout(around_two, around_two, pair.amid, header=header, end=end)


def _take_lead(calls: WrittenCalls) -> WrittenCalls:
    """Decides whether the lead belongs to a call, or stands between two calls."""
    gap, lead = _find_gap(calls), calls.layout.lead
    led = replace(calls.chat, lead=lead)
    opener = read_content(led).opener
    if gap is None and opener != lead:
        return replace(calls, chat=led)
    layout = calls.layout.without_lead(opens_part=gap is not None and bool(opener))
    return replace(calls, layout=layout, gap=gap)


def _find_gap(calls: WrittenCalls) -> str | None:
    """Returns the white space in front of calls if each call has the header of a message, and the
    prompt has already written all of the header that every message of the role has. Else None."""
    chat, layout = calls.chat, calls.layout
    header, prompt = layout.lead.rstrip(), chat.ask(opening=True) or ""
    block = chat.reasoning
    is_repeated = block is not None and block.next_opener == header
    is_open = is_repeated or _OPEN_HEADER.search(header) is not None
    names_role = header == chat.prompted and is_open
    is_own = bool(layout.prefix.removeprefix(layout.lead))
    is_gap = names_role and prompt.endswith(header) and is_own
    return layout.lead[len(header) :] if is_gap else None


HARD_TEXT = 'PROBE "quoted" \\ <b>\n\n- ü'
"""An answer that a template may spell in another way."""


@dataclass(frozen=True)
class Plain:
    """A turn of content without calls: the text that opens it, and everything after it."""

    opener: str
    tail: str
    escaped: bool = False  # the content is in a JSON string
    ascii: bool = False  # there, characters beyond ASCII are escaped


def find_end(chat: ProbedTemplate, tail: str, *, closer: str = "") -> str:
    """Returns the text that ends a turn; "" if there is none. `closer`: the part of the tail that
    closes the content.

    If there are several tags before a next message, it is the last one that also ends the user's
    messages, or else the last one. (Some templates, such as Phi's, write another tag at the end of
    a conversation.)
    """
    ending = tail.removeprefix(closer)
    tags = find_tags(common_prefix(find_following(chat).removeprefix(closer), ending))
    of_user = find_tags(chat.ask() or "")
    if usual := [tag for tag in tags if tag in of_user]:
        return usual[-1]
    return tags[-1] if tags else "".join(find_ends(ending))


def find_closer(tail: str, opener: str) -> str:
    """Returns the text that closes content: the first of several tags after it, if it is opened; or
    ""."""
    tags = find_tags(tail)
    return tail[: tail.index(tags[0]) + len(tags[0])] if opener and len(tags) > 1 else ""


def find_ends(text: str) -> tuple[str, ...]:
    """Returns the texts that can end a turn: the first tag after its content, or all of that text
    if it has no tag. What follows the tag belongs to the next turn."""
    tag = find_tag(text)
    end = tag[0] if tag else text.strip()
    return (end,) if end else ()


def find_following(chat: ProbedTemplate) -> str:
    """Returns the end of turn that a template writes in front of the next message's header, or
    ""."""
    text = chat.ask(show_message(Turn(TEXT)), {"role": "user", "content": AGAIN}) or ""
    after = text.partition(TEXT)[2].partition(AGAIN)[0] if AGAIN in text else ""
    header = chat.render(with_tools=False, opening=True).partition(USER)[0]
    return after.removesuffix(common_suffix(after, header))


def read_content(chat: ProbedTemplate) -> Plain:
    """Returns the texts around content; raises a `DetectError` if the template writes none."""
    opener, found, tail = chat.read(Turn(TEXT)).partition(TEXT)
    if not found:
        raise DetectError("the chat template writes no content")
    is_quoted = opener.endswith('"') and tail.startswith('"')
    hard = chat.body(Turn(HARD_TEXT)) if is_quoted else None
    for ascii in (False, True):
        escaped = json.dumps(HARD_TEXT, ensure_ascii=ascii)[1:-1]
        if hard is not None and opener + escaped + tail in hard:
            return Plain(opener, tail, escaped=True, ascii=ascii)
    return Plain(opener, tail)
