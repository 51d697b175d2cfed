"""Turns that go on with a text of the client: the last message of the conversation, if it says so.

What the message says is written as the format writes it behind the prompt: the reasoning in its
block, which is closed where content follows. It is data: none of it becomes a marker, and text that
would be read as anything else than it is, or that the grammar does not take, is refused.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, replace

from constrained.assistant_prefill import Begun, refuse
from constrained.decode.assistant_prefix import Prefix
from constrained.errors import RequestError
from constrained.job import CompiledTurn
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import ends_inside
from grammars.errors import RenderError
from grammars.parse.parser import collect
from grammars.render import render
from grammars.turn import THINKING_TAGS, State, Turn

_CONTENT, _REASONING = "\ue000", "\ue001"  # stand for the texts where the format is asked


@dataclass(frozen=True)
class _Part:
    """A part of the prefix.

    Args:
        is_data: it is text of the client.
        is_content: it belongs to the content, and not to the reasoning.
    """

    text: str
    tokens: tuple[int, ...]
    is_data: bool
    is_content: bool


def go_on(turn: CompiledTurn, begun: Begun, state: State) -> CompiledTurn:
    """The turn with this behind its prompt.

    Args:
        turn: as `begun.narrow` has it.
        begun: what it goes on with.
        state: where its prompt ends.

    Raises:
        RequestError: the format has no place for it, or it would be read as something else, or the
            request does not admit it; says up to which byte it fits.
        GrammarError: the matcher fails.
    """
    if not (begun.content or begun.reasoning):
        return turn
    _check_texts(turn, begun)
    written, body = (
        _write(turn, begun, state),
        _write(turn, replace(begun, reasoning=""), turn.state),
    )
    if not begun.content:
        body = written
    before = _encode(turn, begun, written.removesuffix(body))
    parts = _encode(turn, begun, body)
    if turn.matcher:
        _check_grammar(turn.matcher.fork(), turn, parts, begun)
    _check_reading(replace(turn, state=state), [*before, *parts], begun)
    prefix = _cut(turn, before, parts, begun)
    matcher = turn.matcher
    if matcher:
        matcher = matcher.fork()
        for token in prefix.tokens[sum(len(part.tokens) for part in before) :]:
            matcher.commit(token)
    return replace(turn, tokens=(*turn.tokens, *prefix.tokens), matcher=matcher, prefix=prefix)


def _write(turn: CompiledTurn, begun: Begun, state: State) -> str:
    """The text as the format has it, up to the end of what the client gave; of the two texts, what
    stands for them."""
    content, reasoning = begun.content and _CONTENT, begun.reasoning and _REASONING
    try:
        text = render(Turn(content, reasoning), turn.format, (), state)
    except RenderError as e:
        is_content = e.where != "/reasoning"
        raise RequestError(e.message, where=begun.where(is_content=is_content)) from e
    return text[: text.find(content or reasoning or " ") + 1]


def _encode(turn: CompiledTurn, begun: Begun, text: str) -> list[_Part]:
    """The parts of what `_write` writes."""
    pieces = [piece for piece in re.split(f"([{_CONTENT}{_REASONING}])", text) if piece]
    split = pieces.index(_REASONING) + 1 if _REASONING in pieces else 0
    return [
        _encode_piece(turn, begun, piece, is_content=bool(begun.content) and place >= split)
        for place, piece in enumerate(pieces)
    ]


def _encode_piece(turn: CompiledTurn, begun: Begun, piece: str, *, is_content: bool) -> _Part:
    vocabulary = turn.vocabulary
    if piece not in (_CONTENT, _REASONING):
        return _Part(piece, (*vocabulary.encode_marked(piece, turn.markers),), False, is_content)
    text = begun.content if is_content else begun.reasoning
    try:
        return _Part(text, (*vocabulary.encode(text),), True, is_content)
    except UnicodeEncodeError as e:
        where = begun.where(is_content=is_content)
        raise RequestError("it has a lone surrogate", where=where, hint="Replace it") from e


def _check_texts(turn: CompiledTurn, begun: Begun) -> None:
    """Where no marker opens calls, content may not be half a call: the model would complete it. No
    reasoning holds a marker, whether it is closed or not."""
    found = [at for marker in turn.format.reserved if (at := begun.reasoning.find(marker)) >= 0]
    if found:
        raise refuse(begun, len(begun.reasoning[: min(found)].encode()), is_content=False)
    bare, content = turn.format.bare, "".join(begun.content.split())
    if not bare or not content or not turn.policy.select(turn.tools):
        return
    begin = f'{{"{bare.name_key}"'
    if begin.startswith(content) or content.startswith(begin):
        raise RequestError(
            "the text begins as a call does",
            where=begun.where(is_content=True),
            hint='Leave the tools out, or use tool_choice "none"',
        )


def _check_grammar(
    matcher: Matcher, turn: CompiledTurn, parts: Sequence[_Part], begun: Begun
) -> None:
    """Refuses what the grammar does not take; commits what it does."""
    for part in parts:
        count = matcher.accepts(part.tokens)
        if count == len(part.tokens):
            for token in part.tokens:
                matcher.commit(token)
            continue
        offset = _count_fit(matcher, turn, part, count) if part.is_data else 0
        raise refuse(begun, offset, is_content=part.is_content)


def _count_fit(matcher: Matcher, turn: CompiledTurn, part: _Part, count: int) -> int:
    """How many bytes of a text fit, of which so many tokens do."""
    vocabulary = turn.vocabulary
    fit = vocabulary.text(part.tokens[:count]).decode("utf-8", "ignore")
    for end in range(len(fit) + 1, len(part.text)):
        tokens = vocabulary.encode(part.text[:end])
        if matcher.accepts(tokens) < len(tokens):
            break
        fit = part.text[:end]
    return len(fit.encode())


def _check_reading(turn: CompiledTurn, parts: Sequence[_Part], begun: Begun) -> None:
    """Refuses text that is read as something else than it is: a marker of the format, say."""
    parser = turn.parser()
    read = collect([*parser.feed("".join(part.text for part in parts)), *parser.close()])
    if read == Turn(begun.content, begun.reasoning):
        return
    raise RequestError(
        "a part of the text would be read as something else: a marker, or thoughts",
        where=begun.where(is_content=not begun.reasoning or read.reasoning == begun.reasoning),
        hint="Leave what stands for a marker out, and give reasoning as reasoning_content",
    )


def _cut(
    turn: CompiledTurn, before: Sequence[_Part], parts: Sequence[_Part], begun: Begun
) -> Prefix:
    """The prefix, its last token left open; not that of a reasoning whose budget is spent."""
    vocabulary = turn.vocabulary
    tokens = [token for part in parts for token in part.tokens]
    kept, thought = tokens.copy(), _count_thought(turn, tokens)
    if not (turn.budget and thought >= turn.budget.tokens):
        kept.pop()
        while ends_inside(vocabulary.text(kept)):
            kept.pop()
    healed = vocabulary.text(tokens[len(kept) :]).decode()
    return Prefix(
        head="".join(part.text for part in parts).removesuffix(healed),
        healed=healed,
        tokens=(*(token for part in before for token in part.tokens), *kept),
        content=begun.content,
        reasoning=begun.reasoning,
        thought=max(0, thought - (len(tokens) - len(kept))),
        halves=_find_halves(turn, begun.content or begun.reasoning),
    )


def _find_halves(turn: CompiledTurn, text: str) -> tuple[str, ...]:
    """What would make a marker of the end of a text: the model may not write it there."""
    format = turn.format
    markers = {*format.reserved, *format.inner_ends, format.tail, *format.openings} - {""}
    markers |= {THINKING_TAGS[0]} if turn.thinking_tags else set[str]()
    halves = ((marker, size) for marker in markers for size in range(1, len(marker)))
    found = {marker[size:] for marker, size in halves if text.endswith(marker[:size])}
    return tuple(sorted(found))


def _count_thought(turn: CompiledTurn, tokens: Sequence[int]) -> int:
    """How many tokens are inside the reasoning block; 0 if they close it."""
    parser, decoder, count = turn.parser(), getincrementaldecoder("utf-8")(), 0
    for token in tokens:
        was_reasoning = parser.is_reasoning
        parser.feed(decoder.decode(turn.vocabulary.text([token])))
        count = count + was_reasoning if parser.is_reasoning else 0
    return count
