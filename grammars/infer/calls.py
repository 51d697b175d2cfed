"""Makes the nodes of a call of the text that a template writes for it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from grammars.errors import DetectError
from grammars.infer.arguments import (
    PART_OF_VALUE,
    WrittenOut,
    decode_string,
    infer_keyword_arguments,
    infer_tagged,
    require_style,
)
from grammars.infer.cutting import Piece, WrittenCalls, find_member, follows
from grammars.infer.detection import NoFormat, attempt
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
from grammars.infer.text import (
    find_loose,
    find_tag,
    make_nodes,
    merge_literals,
    split_numbers,
    tokenise,
)
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_object
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    CallId,
    CallIndex,
    Format,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    Literal,
    Name,
    Node,
    TaggedArguments,
)

_Arguments = TaggedArguments | KeywordArguments
_ANY_ID = "[a-zA-Z0-9_-]{1,64}"


def _find_counters(first: Sequence[Piece], second: Sequence[Piece]) -> tuple[Piece, ...]:
    """Returns the pieces of the first call, with the numbers that count calls cut out of the
    text."""
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
        elif follows(a, b):
            if fixed:
                yield Piece("text", fixed)
            fixed = ""
            yield Piece("index", a)
        else:
            raise DetectError(f"two calls differ in {a!r} and {b!r}")
    if fixed:
        yield Piece("text", fixed)


def _describe_ids(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Makes the counter an id with the name, where the two are one word."""
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
    return list(takewhile(lambda word: not word.isspace() and word not in ("'", '"'), words))


def build_call(calls: WrittenCalls) -> tuple[Node, ...]:
    """Returns the nodes of a call; raises a `DetectError` if none describes a part of it."""
    prefix, suffix = calls.layout.prefix, calls.suffix
    pieces = list(calls.only.pieces)
    if calls.pair:
        pair = calls.pair
        pieces = list(_find_counters(pair.first.pieces, pair.second.pieces))
    written = None
    if not calls.only.is_whole:
        place = [piece.kind for piece in pieces].index("tagged")
        following = pieces[place + 1 :]  # the name may close the call
        end = following[0].text if following else suffix
        gap = pieces[place - 1].text if pieces[place - 1].kind == "text" else ""
        written = _read_written_out(calls, len(gap), end)
        head = pieces[: place - 1] if gap else pieces[:place]
        pieces = [*head, Piece("text", written.before), pieces[place]]
        if following:
            pieces += [Piece("text", written.rest), *following[1:]]
        else:
            suffix = written.rest
    loose = find_loose(prefix, suffix, *(p.text for p in pieces if p.kind == "text"))
    begins_with_object = prefix.startswith("{") or (pieces[0].kind == "call" and not prefix)
    opens = not calls.layout.opening and not begins_with_object
    nodes: list[Node] = list(
        make_nodes(prefix, loose, opens=opens, opens_part=calls.layout.opens_part)
    )
    for piece in pieces:
        if piece.kind == "text":
            nodes += make_nodes(piece.text, loose)
        else:
            nodes.append(_make_hole(piece, calls, written))
    nodes += make_nodes(suffix, loose)
    return _describe_ids(merge_literals(nodes))


def _make_hole(piece: Piece, calls: WrittenCalls, written: WrittenOut[_Arguments] | None) -> Node:
    match piece.kind:
        case "name":
            return Name()
        case "id":
            return _find_id(calls.chat)
        case "index":
            return CallIndex(int(piece.text))
        case "call":
            return _read_json_call(calls)
        case "arguments":
            call, text = _write_rich_call(calls)
            found = find_member(calls.only.arguments.text, KEYS[0], VALUES[0], start=0)
            quote = found["quote"] if found else ""
            return JsonArguments(require_style((call.arguments, text), quote=quote))
        case "encoded":
            call, text = _write_rich_call(calls)
            style = require_style((call.arguments, decode_string(text)))
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


def _cut_arguments(calls: WrittenCalls, call: ToolCall, gap: int = 0, suffix: str = "") -> str:
    """Returns what the template writes for the arguments of another call, with the `gap` characters
    in front of them, up to the text that follows their `suffix`."""
    chat, layout, only = calls.chat, calls.layout, calls.only
    one, text = chat.read(Turn(calls=(chat.call,))), chat.read(Turn(calls=(call,)))
    shift = len(layout.opening + layout.prefix) - only.start  # the prompt writes so much itself
    begin, end = only.bounds
    head, tail = one[: begin - gap + shift], one[end + shift + len(suffix) :]
    if not (text.startswith(head) and text.endswith(tail)) or len(text) < len(head) + len(tail):
        raise DetectError(f"the text around arguments depends on them: {text!r}")
    return text[len(head) : len(text) - len(tail)]


def _write_rich_call(calls: WrittenCalls) -> tuple[ToolCall, str]:
    """Returns a call with arguments of all types, and the text of the piece with the arguments."""
    (call,) = calls.chat.calls(RICH)
    return call, _cut_arguments(calls, call)


def _read_json_call(calls: WrittenCalls) -> JsonCall:
    call, text = _write_rich_call(calls)
    members = _read_object(text)
    keys = list(members)
    name_key = _find_key(members, call.name)
    arguments_key = _find_key(members, call.arguments)
    node = JsonCall(name_key, arguments_key, require_style((members, text)))
    expected = [name_key, arguments_key]
    others = [key for key in keys if key not in expected]
    if others:
        id_key = others[0]
        node = replace(node, id_key=id_key, id_first=keys[0] == id_key)
        node = replace(node, id=_read_id(id_key, members[id_key], call=call, calls=calls))
        expected.insert(0 if node.id_first else 2, id_key)
    if keys != expected:
        raise DetectError(f"a call has other members than name, arguments and id: {text!r}")
    return node


def _read_object(text: str) -> dict[str, Json]:
    """Reads the members of a call that is one object. Templates that put arguments together by hand
    write JSON only as long as a value is a text."""
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DetectError(f"the JSON of a call cannot be read: {text!r}") from error
    if not is_object(members):
        raise DetectError(f"a call is not a JSON object: {text!r}")
    return members


def _find_key(members: Mapping[str, Json], value: Json) -> str:
    for key, member in members.items():
        if member == value:
            return key
    raise DetectError(f"a call does not hold {value!r} as it is: {dict(members)!r}")


def _read_id(key: str, value: Json, *, call: ToolCall, calls: WrittenCalls) -> CallId | CallIndex:
    if value == call.id:
        return _find_id(calls.chat)
    # Command R7B counts the calls of a conversation, as a text: "0", "1".
    if isinstance(value, str) and value.isdecimal():
        following = str(int(value) + 1)
        second: Mapping[str, Json] = {}
        if calls.pair:
            second = _read_object(calls.pair.second.arguments.text)
        if second.get(key, following) == following:
            return CallIndex(int(value))
    raise DetectError(f"the member {key!r} of a call is neither its id nor its number")


def _read_written_out(calls: WrittenCalls, gap: int, end: str) -> WrittenOut[_Arguments]:
    """Returns the arguments in Python, or between tags. `gap`: how many characters stand between
    the name and them; `end`: the text after them, to the end of the call or the name that closes
    it."""

    def write_call(arguments: Mapping[str, Json]) -> str:
        (call,) = calls.chat.calls(arguments)
        return _cut_arguments(calls, call, gap, end)

    keywords = infer_keyword_arguments(write_call)
    if keywords is None:
        return infer_tagged(write_call, end)
    if isinstance(keywords, NoFormat):
        tagged = attempt(partial(infer_tagged, write_call, end))
        if isinstance(tagged, NoFormat):
            raise DetectError(keywords.message)
        return tagged
    if not (keywords.hole.last or keywords.rest):
        _refuse_growing_value(calls)
    return keywords


def _refuse_growing_value(calls: WrittenCalls) -> None:
    """Raises an error if calls end with a value to which the text after it could belong, such as
    the end of a YAML document (`...`) after a number."""
    layout = calls.layout
    for after in (layout.between + layout.prefix, layout.rest):
        if PART_OF_VALUE.match(after):
            message = f"after the last argument stands {after[:20]!r}, which could go on with it"
            raise DetectError(message)


def find_counting(chat: ProbedTemplate, format: Format) -> Format:
    """Returns the format with the template's way to count the calls of a second turn. Raises a
    `DetectError` if it counts them in neither way."""
    anew = replace(format, call=tuple(map(_count_anew, format.call)))
    if anew == format:
        return format
    first, second = (
        ToolCall(NAMES[0], {KEYS[0]: VALUES[i]}, id=chat.scheme(NAMES[0], i)) for i in range(2)
    )
    again, two = {"role": "user", "content": AGAIN}, show_message(Turn(calls=(second,)))
    text = chat.ask_after_result(first, two)
    if text is None:  # it refuses two turns without a question between them
        text = chat.ask_after_result(first, again, two)
    if text is None:
        return format
    for candidate in (format, anew):
        written = write(Turn(calls=(second,)), candidate, calls=1)
        if written and written in text:
            return candidate
    raise DetectError(f"calls of a second turn are counted in an unknown way: {text!r}")


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
