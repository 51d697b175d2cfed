"""Finds calls in rendered text: where each begins and ends, the text between two calls, the nodes
of one call, and the numbers that count them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Literal as OneOf

from grammars.errors import DetectError
from grammars.infer.arguments import WrittenOut, infer_tagged
from grammars.infer.detection import NoFormat, attempt
from grammars.infer.keyword_arguments import (
    PART_OF_VALUE,
    infer_keyword_arguments,
)
from grammars.infer.probes import (
    AGAIN,
    KEYS,
    NAMES,
    RICH,
    VALUES,
    ProbedTemplate,
    long_id,
    show_message,
    write,
)
from grammars.infer.styles import (
    decode_string,
    find_encoded,
    find_member,
    find_objects,
    find_style,
)
from grammars.infer.text import (
    find_loose,
    find_tag,
    make_nodes,
    merge_literals,
    split_numbers,
    tokenise,
)
from grammars.infer.turn import CallLayout
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_object
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    CallId,
    CallIndex,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Name,
    Node,
    TaggedArguments,
)

_Arguments = TaggedArguments | KeywordArguments
_ANY_ID = "[a-zA-Z0-9_-]{1,64}"
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
    """A call that was found in a text, from its first hole to its last: its bounds and its
    pieces."""

    start: int
    end: int
    pieces: tuple[Piece, ...]

    @property
    def arguments(self) -> Piece:
        """The piece with the arguments."""
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


def cut_call(text: str, call: ToolCall, start: int = 0, *, one_by_one: bool = False) -> Cut | None:
    """Finds a call after `start`. Returns None if its name or its argument is not in the text.

    Args:
        text: what the template writes.
        call: a call with one argument, a text.
        start: an offset.
        one_by_one: the arguments are in the braces of an object that is not JSON, and are read one
            by one.
    """
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
    """A turn of two calls.

    Args:
        text: what the template writes.
        first, second: the calls in there.
    """

    text: str
    first: Cut
    second: Cut

    @property
    def amid(self) -> str:
        """The text between the two calls."""
        return self.text[self.first.end : self.second.start]

    def find_counters(self, one: str, only: Cut) -> tuple["CallPair", Cut]:
        """Returns the pair and the single call with the numbers that count calls, where these stand
        in front of the first hole or behind the last one.

        Args:
            one: a turn with the single call.
            only: that call.
        """
        pair = self
        head, amid = split_numbers(self.text[: self.first.start]), split_numbers(self.amid)
        counts = _find_count(head[::-1], amid[::-1])
        counted = "".join(reversed(counts))
        if counts and one[: only.start].endswith(counted):
            first, *rest = reversed(counts)
            pair = replace(
                pair,
                first=_extend(pair.first, before=(first, *rest)),
                second=_extend(pair.second, before=(str(int(first) + 1), *rest)),
            )
            only = _extend(only, before=(first, *rest))
        after = split_numbers(one[only.end :])
        counts = _find_count(after, split_numbers(self.text[self.second.end :]))
        if counts and only.is_whole and pair.amid.startswith("".join(counts)):
            *rest, last = counts
            pair = replace(
                pair,
                first=_extend(pair.first, after=(*rest, last)),
                second=_extend(pair.second, after=(*rest, str(int(last) + 1))),
            )
            only = _extend(only, after=(*rest, last))
        return pair, only


def _find_count(first: Sequence[str], second: Sequence[str]) -> Sequence[str]:
    """Returns the words up to the first one that differs, if that is a number and one higher in the
    second text; () if it is not."""
    for place, (one, two) in enumerate(zip(first, second, strict=False)):
        if one != two:
            return first[: place + 1] if _follows(one, two) else ()
    return ()


def _extend(cut: Cut, *, before: Sequence[str] = (), after: Sequence[str] = ()) -> Cut:
    """Returns the call with a number and words in front of it, or words and a number behind it."""
    pieces = [*cut.pieces]
    if before:
        pieces[:0] = [Piece("index", before[0]), Piece("text", "".join(before[1:]))]
    if after:
        pieces += [Piece("text", "".join(after[:-1])), Piece("index", after[-1])]
    start, end = cut.start - len("".join(before)), cut.end + len("".join(after))
    return Cut(start, end, tuple(piece for piece in pieces if piece.text))


def _follows(one: str, two: str) -> bool:
    """Returns whether the second word is the first number plus one."""
    return one.isdecimal() and two == str(int(one) + 1)


@dataclass(frozen=True)
class _Hole:
    """The bounds of a hole's text."""

    kind: Kind
    start: int
    end: int


def _find_arguments(text: str, call: ToolCall, start: int, *, one_by_one: bool) -> _Hole | None:
    for written, begin, end in find_encoded(text, start):
        if written == call.arguments:
            return _Hole("encoded", begin, end)
    for written, begin, end in find_objects(text, start):
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
    is_id = all(value == call.id or _is_number(value) for value in others)
    is_ordered = arguments == name + 1 and len(others) <= 1
    return is_ordered and is_id and find_style((dict(written), text)) is not None


def _writes_id(text: str, call: ToolCall) -> bool:
    # If an id contains the name, the name is searched.
    return bool(call.id) and call.name not in str(call.id) and str(call.id) in text


def _is_number(value: Json) -> bool:
    return isinstance(value, str) and value.isdecimal()


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


def _find_counters(first: Sequence[Piece], second: Sequence[Piece]) -> tuple[Piece, ...]:
    """Returns the pieces of the first call, with the numbers that count calls cut out of fixed
    text.

    Raises:
        DetectError: the texts of two calls differ in another way.
    """
    if [piece.kind for piece in first] != [piece.kind for piece in second]:
        raise DetectError("two calls are not written alike")
    pieces: list[Piece] = []
    for one, two in zip(first, second, strict=True):
        if one.kind == "text" and one.text != two.text:
            pieces += _cut_counters(one.text, two.text)
        else:
            pieces.append(one)
    return tuple(pieces)


def _cut_counters(first: str, second: str) -> Iterator[Piece]:
    """Cuts the first text where the two differ only in numbers that follow each other."""
    one, two = split_numbers(first), split_numbers(second)
    if len(one) != len(two):
        raise DetectError(f"two calls differ in {first!r} and {second!r}")
    fixed = ""
    for a, b in zip(one, two, strict=True):
        if a == b:
            fixed += a
        elif _follows(a, b):
            if fixed:
                yield Piece("text", fixed)
            fixed = ""
            yield Piece("index", a)
        else:
            raise DetectError(f"two calls differ in {a!r} and {b!r}")
    if fixed:
        yield Piece("text", fixed)


def _describe_ids(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the nodes. If the counter and the name are one word, the counter becomes an id with
    the name."""
    described = list(nodes)
    for i, node in enumerate(nodes):
        if isinstance(node, CallIndex):
            before = _take_word(reversed(_list_words(nodes[:i])))
            after = _take_word(_list_words(nodes[i + 1 :]))
            id = "".join([*reversed(before), "{index}", *after])
            # With nothing between name and counter, neither could be read out of the id.
            if "{name}" not in id or "}{" in id:
                id = "{index}"
            described[i] = replace(node, id=id)
    return tuple(described)


def _list_words(nodes: Iterable[Node]) -> list[str]:
    """Returns the possible words of an id, with white space for everything else."""
    words: list[str] = []
    for node in nodes:
        if isinstance(node, Name):
            words.append("{name}")
        elif isinstance(node, Literal) and not find_tag(node.text):
            words += tokenise(node.text)
        else:
            words.append(" ")
    return words


def _take_word(words: Iterable[str]) -> list[str]:
    """Returns the words up to white space or a quote."""
    return list(takewhile(lambda word: not word.isspace() and word not in ("'", '"'), words))


@dataclass(frozen=True)
class CallSample:
    """A call as the template writes it.

    Args:
        chat: the template.
        layout: the fixed texts around calls.
        closing: the text after the last call; after the only one it is part of the call.
        only: a call by itself.
        pair: two calls; None if there is one in a turn.
    """

    chat: ProbedTemplate
    layout: CallLayout
    closing: str
    only: Cut
    pair: CallPair | None

    @property
    def suffix(self) -> str:
        """The text from a call's last hole to the end of the call."""
        return self.layout.suffix if self.pair else self.closing


def build_call(sample: CallSample) -> tuple[Node, ...]:
    """Returns the nodes of a call.

    Raises:
        DetectError: no node describes a part of the call.
    """
    prefix, suffix = sample.layout.prefix, sample.suffix
    pieces = list(sample.only.pieces)
    if sample.pair:
        pair = sample.pair
        pieces = list(_find_counters(pair.first.pieces, pair.second.pieces))
    written = None
    if not sample.only.is_whole:
        place = [piece.kind for piece in pieces].index("tagged")
        following = pieces[place + 1 :]  # the name may close the call
        end = following[0].text if following else suffix
        gap = pieces[place - 1].text if pieces[place - 1].kind == "text" else ""
        written = _read_written_out(sample, len(gap), end)
        head = pieces[: place - 1] if gap else pieces[:place]
        pieces = [*head, Piece("text", written.before), pieces[place]]
        if following:
            pieces += [Piece("text", written.rest), *following[1:]]
        else:
            suffix = written.rest
    loose = find_loose(prefix, suffix, *(p.text for p in pieces if p.kind == "text"))
    begins_with_object = prefix.startswith("{") or (pieces[0].kind == "call" and not prefix)
    opens = not sample.layout.opening and not begins_with_object
    nodes: list[Node] = list(
        make_nodes(prefix, loose, opens=opens, opens_part=sample.layout.opens_part)
    )
    for piece in pieces:
        if piece.kind == "text":
            nodes += make_nodes(piece.text, loose)
        else:
            nodes.append(_make_hole(piece, sample, written))
    nodes += make_nodes(suffix, loose)
    return _describe_ids(merge_literals(nodes))


def _make_hole(piece: Piece, sample: CallSample, written: WrittenOut[_Arguments] | None) -> Node:
    match piece.kind:
        case "name":
            return Name()
        case "id":
            return _find_id(sample.chat)
        case "index":
            return CallIndex(int(piece.text))
        case "call":
            return _read_json_call(sample)
        case "arguments":
            return JsonArguments(_read_style(sample))
        case "encoded":
            call, text = _write_rich_call(sample)
            style = _require_style(call.arguments, decode_string(text))
            return JsonArguments(style, encoded=True)
        case _:
            if written is None:
                raise DetectError("unexpected text follows the arguments of a call")
            return written.hole


def _find_id(chat: ProbedTemplate) -> CallId:
    # Mistral's templates write ids of nine characters and refuse all others.
    other = replace(chat, scheme=long_id)
    text = other.body(Turn(calls=(other.call,))) or ""
    return CallId(_ANY_ID) if str(other.call.id) in text else CallId()


@dataclass(frozen=True)
class _Frame:
    """The text in front of the arguments of a single call, and the text after them."""

    head: str
    tail: str

    def cut(self, chat: ProbedTemplate, call: ToolCall) -> str:
        """Returns the text of another call between these two."""
        text = chat.read(Turn(calls=(call,)))
        fits = text.startswith(self.head) and text.endswith(self.tail)
        if not fits or len(text) < len(self.head) + len(self.tail):
            raise DetectError(f"the text around arguments depends on them: {text!r}")
        return text[len(self.head) : len(text) - len(self.tail)]


def _find_frame(sample: CallSample, gap: int = 0, suffix: str = "") -> _Frame:
    """Returns the frame, without `gap` characters in front of the arguments and without the
    suffix."""
    only, layout = sample.only, sample.layout
    one = sample.chat.read(Turn(calls=(sample.chat.call,)))
    shift = len(layout.opening + layout.prefix) - only.start  # the prompt writes so much itself
    begin, end = only.bounds
    return _Frame(one[: begin - gap + shift], one[end + shift + len(suffix) :])


def _write_rich_call(sample: CallSample) -> tuple[ToolCall, str]:
    """Returns a call with arguments of all types, and the text of the piece with the arguments."""
    (call,) = sample.chat.calls(RICH)
    return call, _find_frame(sample).cut(sample.chat, call)


def _read_style(sample: CallSample) -> JsonStyle:
    call, text = _write_rich_call(sample)
    found = find_member(sample.only.arguments.text, KEYS[0], VALUES[0], start=0)
    return _require_style(call.arguments, text, found["quote"] if found else "")


def _require_style(value: Json, text: str, quote: str = "") -> JsonStyle:
    style = find_style((value, text), quote=quote)
    if style is None:
        raise DetectError(f"JSON is written in an unknown style: {text!r}")
    return style


def _read_json_call(sample: CallSample) -> JsonCall:
    call, text = _write_rich_call(sample)
    members = _read_object(text)
    keys = list(members)
    name_key = _find_key(members, call.name)
    arguments_key = _find_key(members, call.arguments)
    node = JsonCall(name_key, arguments_key, _require_style(members, text))
    expected = [name_key, arguments_key]
    others = [key for key in keys if key not in expected]
    if others:
        id_key = others[0]
        node = replace(node, id_key=id_key, id_first=keys[0] == id_key)
        node = replace(node, id=_read_id(id_key, members[id_key], call=call, sample=sample))
        expected.insert(0 if node.id_first else 2, id_key)
    if keys != expected:
        raise DetectError(f"a call has other members than name, arguments and id: {text!r}")
    return node


def _read_object(text: str) -> dict[str, Json]:
    """Reads the members of a call that is one object.

    Raises:
        DetectError: the text is not a JSON object. Templates that put arguments together by hand
            write JSON as long as a value is a text.
    """
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DetectError(f"the JSON of a call cannot be read: {text!r}") from error
    if not is_object(members):
        raise DetectError(f"a call is not a JSON object: {text!r}")
    return members


def _find_key(members: Mapping[str, Json], value: Json) -> str:
    """Returns the key of a member with this value.

    Raises:
        DetectError: there is none.
    """
    for key, member in members.items():
        if member == value:
            return key
    raise DetectError(f"a call does not hold {value!r} as it is: {dict(members)!r}")


def _read_id(key: str, value: Json, *, call: ToolCall, sample: CallSample) -> CallId | CallIndex:
    if value == call.id:
        return _find_id(sample.chat)
    # Command R7B counts the calls of a conversation, as a text: "0", "1".
    if isinstance(value, str) and value.isdecimal():
        following = str(int(value) + 1)
        second: Mapping[str, Json] = {}
        if sample.pair:
            second = _read_object(sample.pair.second.pieces[0].text)
        if second.get(key, following) == following:
            return CallIndex(int(value))
    raise DetectError(f"the member {key!r} of a call is neither its id nor its number")


def _read_written_out(sample: CallSample, gap: int, end: str) -> WrittenOut[_Arguments]:
    """Returns the arguments of a call in Python, or between tags.

    Args:
        sample: the call.
        gap: how many characters stand between the name and them.
        end: the text after them, to the end of the call or to the name that closes it.
    """
    frame = _find_frame(sample, gap, end)

    def write_call(arguments: Mapping[str, Json]) -> str:
        (call,) = sample.chat.calls(arguments)
        return frame.cut(sample.chat, call)

    keywords = infer_keyword_arguments(write_call)
    if keywords is None:
        return infer_tagged(write_call, end)
    if isinstance(keywords, NoFormat):
        tagged = attempt(partial(infer_tagged, write_call, end))
        if isinstance(tagged, NoFormat):
            raise DetectError(keywords.message)
        return tagged
    if not (keywords.hole.last or keywords.rest):
        _refuse_growing_value(sample)
    return keywords


def _refuse_growing_value(sample: CallSample) -> None:
    """Raises an error if calls end with a value to which the text after it could belong, such as
    the end of a YAML document (`...`) after a number."""
    layout = sample.layout
    for after in (layout.between + layout.prefix, layout.rest):
        if PART_OF_VALUE.match(after):
            message = f"after the last argument stands {after[:20]!r}, which could go on with it"
            raise DetectError(message)


def find_counting(chat: ProbedTemplate, format: Format) -> Format:
    """Returns the format with the template's way to count the calls of a second turn.

    Raises:
        DetectError: it counts them in neither way.
    """
    anew = replace(format, call=tuple(map(_count_anew, format.call)))
    if anew == format:
        return format
    first, second = (
        ToolCall(NAMES[0], {KEYS[0]: VALUES[i]}, id=chat.scheme(NAMES[0], i)) for i in range(2)
    )
    text = _show_turns(chat, first, second)
    if text is None:
        return format
    for candidate in (format, anew):
        written = write(Turn(calls=(second,)), candidate, calls=1)
        if written and written in text:
            return candidate
    raise DetectError(f"calls of a second turn are counted in an unknown way: {text!r}")


def _show_turns(chat: ProbedTemplate, first: ToolCall, second: ToolCall) -> str | None:
    """Renders two turns of one call each, with a question between them or without. None if the
    template refuses both."""
    again, two = {"role": "user", "content": AGAIN}, show_message(Turn(calls=(second,)))
    text = chat.ask_after_result(first, two)
    return chat.ask_after_result(first, again, two) if text is None else text


def _count_anew(node: Node) -> Node:
    """Returns the node with a counter that starts again in each turn. Such numbers are no ids,
    because the calls of two turns would have the same ones."""
    match node:
        case CallIndex():
            return replace(node, anew=True, id="")
        case JsonCall(id=CallIndex() as index):
            return replace(node, id=replace(index, anew=True, id=""))
        case _:
            return node
