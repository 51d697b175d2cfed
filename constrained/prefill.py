"""Turns that go on with a text of the client: the last message of the conversation, if it says so.

What the message says is written as the format writes it behind the prompt: the reasoning in its
block, which is closed where content follows. It is data: none of it becomes a marker, and text that
would be read as anything else than it is, or that the grammar does not take, is refused.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.errors import RequestError
from constrained.job import CompiledTurn, Job
from constrained.mask import Matcher
from constrained.messages import THOUGHTS, is_text_parts, normalise
from constrained.prefix import Prefix
from constrained.template import ChatTemplate
from constrained.vocabulary import ends_inside
from grammars.errors import RenderError
from grammars.parse import collect
from grammars.render import render
from grammars.turn import Turn

_CONTENT, _REASONING = "\ue000", "\ue001"  # stand for the texts where the format is asked


@dataclass(frozen=True)
class Begun:
    """A message that a turn goes on with.

    Args:
        content, reasoning: what it says.
        places: the JSON pointers of the two.
    """

    content: str = ""
    reasoning: str = ""
    places: tuple[str, str] = ("", "")

    def where(self, *, is_content: bool) -> str:
        """The place of one of the two."""
        return self.places[0 if is_content else 1]


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


def read_begun(job: Job, template: ChatTemplate) -> tuple[Job, Begun]:
    """The request without the message that its turn goes on with, and that message.

    Raises:
        TemplateError: the messages are no conversation.
        RequestError: the last of them cannot be gone on with.
    """
    if not job.prefill:
        return job, Begun()
    with template.failures():
        messages = normalise(job.messages)
    count = len(messages) - 1
    begun = read_message(messages[-1], f"/messages/{count}")
    if not count:
        hint = "Give the message that it answers, too"
        raise RequestError("there is nothing before the turn", where="/messages", hint=hint)
    places = tuple(min(place, count) for place in job.breakpoints)
    return replace(job, messages=job.messages[:-1], breakpoints=places), begun


def read_message(message: Mapping[str, Any], where: str) -> Begun:
    """What a message says that a turn goes on with.

    Args:
        message: in normal form.
        where: its place.

    Raises:
        RequestError: it is not of the assistant, calls tools, or holds what is no text.
    """
    if message["role"] != "assistant":
        hint = "Add the message of the assistant to go on with, or leave prefill out"
        raise RequestError(f"the last message is of {message['role']!r}", where=where, hint=hint)
    if message.get("tool_calls"):
        hint = "Leave them out, or give their results and leave prefill out"
        raise RequestError("a turn with calls is over", where=f"{where}/tool_calls", hint=hint)
    content = message["content"]
    if is_text_parts(content):
        content = "\n".join(part["text"] for part in content)
    name = next((name for name in THOUGHTS if message.get(name) is not None), THOUGHTS[0])
    reasoning = message.get(name) or ""
    places = f"{where}/content", f"{where}/{name}"
    for text, place in zip((content, reasoning), places, strict=True):
        if not isinstance(text, str):
            raise RequestError("it is no text, so no turn can go on with it", where=place)
    return Begun(content, reasoning, places)


def go_on(turn: CompiledTurn, begun: Begun) -> CompiledTurn:
    """The turn with this behind its prompt.

    Raises:
        RequestError: the format has no place for it, or it would be read as something else, or the
            request does not admit it; says up to which byte it fits.
        GrammarError: the matcher fails.
    """
    if not (begun.content or begun.reasoning):
        return turn
    _check_call(turn, begun)
    parts = _write(turn, begun)
    if turn.matcher:
        _check_grammar(turn.matcher.fork(), turn, parts, begun)
    _check_reading(turn, parts, begun)
    prefix = _cut(turn, parts, begun)
    matcher = turn.matcher
    if matcher:
        matcher = matcher.fork()
        for token in prefix.tokens:
            matcher.commit(token)
    return replace(turn, tokens=(*turn.tokens, *prefix.tokens), matcher=matcher, prefix=prefix)


def _write(turn: CompiledTurn, begun: Begun) -> list[_Part]:
    """The text as the format has it, up to the end of what the client gave."""
    content, reasoning = begun.content and _CONTENT, begun.reasoning and _REASONING
    try:
        text = render(Turn(content, reasoning), turn.format, (), turn.state)
    except RenderError as e:
        is_content = e.where != "/reasoning"
        raise RequestError(e.message, where=begun.where(is_content=is_content)) from e
    last = _CONTENT if begun.content else _REASONING
    text = text[: text.index(last) + 1]
    pieces = [piece for piece in re.split(f"([{_CONTENT}{_REASONING}])", text) if piece]
    split = pieces.index(_REASONING) + 1 if _REASONING in pieces else 0
    return [
        _encode(turn, begun, piece, is_content=bool(begun.content) and place >= split)
        for place, piece in enumerate(pieces)
    ]


def _encode(turn: CompiledTurn, begun: Begun, piece: str, *, is_content: bool) -> _Part:
    vocabulary = turn.vocabulary
    if piece not in (_CONTENT, _REASONING):
        return _Part(piece, (*vocabulary.encode_marked(piece, turn.markers),), False, is_content)
    text = begun.content if is_content else begun.reasoning
    try:
        return _Part(text, (*vocabulary.encode(text),), True, is_content)
    except UnicodeEncodeError as e:
        where = begun.where(is_content=is_content)
        raise RequestError("it has a lone surrogate", where=where, hint="Replace it") from e


def _check_call(turn: CompiledTurn, begun: Begun) -> None:
    """Where no marker opens calls, content may not be half a call: the model would complete it."""
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
        raise RequestError(
            f"the request does not admit this text: it fits up to byte {offset}",
            where=begun.where(is_content=part.is_content),
            hint="Cut it there, or ask for something else",
        )


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


def _cut(turn: CompiledTurn, parts: Sequence[_Part], begun: Begun) -> Prefix:
    """The prefix, its last token left open; not that of a reasoning whose budget is spent."""
    vocabulary = turn.vocabulary
    tokens = [token for part in parts for token in part.tokens]
    kept, thought = tokens.copy(), _count_thought(turn, tokens)
    if not (turn.budget and thought >= turn.budget.tokens):
        kept.pop()
        while ends_inside(vocabulary.text(kept)):
            kept.pop()
    healed = vocabulary.text(tokens[len(kept) :]).decode()
    text = "".join(part.text for part in parts).removesuffix(healed)
    thought = max(0, thought - (len(tokens) - len(kept)))
    return Prefix(text, healed, tuple(kept), begun.content, begun.reasoning, thought)


def _count_thought(turn: CompiledTurn, tokens: Sequence[int]) -> int:
    """How many tokens are inside the reasoning block; 0 if they close it."""
    parser, decoder, count = turn.parser(), getincrementaldecoder("utf-8")(), 0
    for token in tokens:
        was_reasoning = parser.is_reasoning
        parser.feed(decoder.decode(turn.vocabulary.text([token])))
        count = count + was_reasoning if parser.is_reasoning else 0
    return count
