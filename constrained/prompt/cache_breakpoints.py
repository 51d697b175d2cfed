"""Cache breakpoints: first tokens of a prompt that other prompts are likely to share.

Their KV cache is kept longest. One breakpoint is where the tools and system messages end, without
the caller having to say so; others are behind the first messages that the caller names.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

from constrained.errors import TemplateError
from constrained.prompt.prompt_reuse import Messages, Write
from constrained.prompt.turn_cache import digest
from constrained.template.special_tokens import Prompt, find_free_characters
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.wire.format import count_common

MOST = 4  # breakpoints of one prompt, beside that of the tools and system messages
MOST_KNOWN = 64  # shared prefixes
Tokens: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class CacheBreakpoints:
    """The places where a prompt may part from others, in tokens from its start.

    Args:
        shared: any conversation with these tools and system messages begins with so many tokens.
        places: all breakpoints in order, `shared` among them if it is not 0.
        closed: where the generation prompt begins; the next prompt of the conversation may have
            other tokens from there on. 0: that is not known.
    """

    shared: int = 0
    places: tuple[int, ...] = ()
    closed: int = 0


NO_BREAKPOINTS = CacheBreakpoints()


class SharedPrefixes:
    """The first tokens of all prompts with the same tools and system messages.

    The template is asked once for each, by the prompt of a user who says what nobody says.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Tokens] = OrderedDict()

    def measure(
        self,
        key: bytes,
        messages: Sequence[dict[str, Any]],
        tokens: Tokens,
        encode: Callable[[Messages], Tokens],
    ) -> int:
        """The number of first tokens of any conversation with these tools and system messages.

        Args:
            key: names what else the prompt depends on, see `TurnCache.recall`.
            messages: in normal form.
            tokens: of the prompt.
            encode: the prompt of other messages, as tokens.
        """
        system = list(takewhile(lambda message: message["role"] == "system", messages))
        key = digest(key, system)
        if key not in self._known:
            self._known[key] = _encode_shared(system, encode)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return count_common(self._known[key], tokens)


def _encode_shared(system: list[dict[str, Any]], encode: Callable[[Messages], Tokens]) -> Tokens:
    (character,) = find_free_characters(system)
    try:
        return encode([*system, {"role": "user", "content": character}])
    except TemplateError:  # it wants other messages; then there is no shared prefix
        return ()


def find_breakpoints(
    counts: Sequence[int],
    messages: Messages,
    *,
    prompt: Prompt,
    tokens: Sequence[int],
    reused: int,
    write: Write,
    vocabulary: Vocabulary,
) -> set[int]:
    """How many tokens of a prompt its first messages have; of the last counts, if there are many. A
    template that refuses a part of the conversation has no such breakpoint.

    Args:
        counts: numbers of first messages.
        messages: the conversation, in normal form.
        prompt: what the template makes of it.
        tokens: of the prompt.
        reused: how many of them are taken over from earlier turns: the text of a turn may differ
            from what the template makes of it, so that the place is counted from the end.
        write: the prompt of other messages, without the generation prompt.
        vocabulary: of the tokens.
    """
    found = set[int]()
    for count in sorted({*counts} - {0})[-MOST:]:
        try:
            part = write(messages[:count]).text
        except TemplateError:
            continue
        common = prompt.text[: count_common(part, prompt.text)]
        place = _count_from_start(tokens, common, vocabulary)
        if place is None and reused:
            after = prompt.text[len(common) :]
            place = _count_from_end(tokens[reused:], after, vocabulary)
            if place is not None:
                place += reused
        if place:
            found.add(place)
    return found


def count_closed(prompt: str, closed: str, tokens: Sequence[int], vocabulary: Vocabulary) -> int:
    """The number of tokens in front of the generation prompt; 0: that cannot be told.

    Args:
        prompt: its text.
        closed: the text without the generation prompt.
        tokens: of the prompt.
        vocabulary: of the tokens.
    """
    generation_prompt = prompt[count_common(closed, prompt) :]
    return _count_from_end(tokens, generation_prompt, vocabulary) or 0


def _count_from_start(tokens: Sequence[int], text: str, vocabulary: Vocabulary) -> int | None:
    """How many tokens spell the text, or as much of it as is whole tokens; None: others do.

    There may be a BOS in front of it, and spaces that SentencePiece puts before texts.
    """
    rest, at = text.encode(), 0
    for place, token in enumerate(tokens):
        spelled = vocabulary.tokens[token]
        if at == len(rest):
            return place
        if rest.startswith(spelled, at):
            at += len(spelled)
        elif spelled[:1] == b" " and rest.startswith(spelled[1:], at):
            at += len(spelled) - 1
        elif place or token != vocabulary.bos:
            return place if spelled.removeprefix(b" ").startswith(rest[at:]) else None
    return len(tokens)


def _count_from_end(tokens: Sequence[int], text: str, vocabulary: Vocabulary) -> int | None:
    """How many tokens are in front of those that spell the text, from the end; None: it begins
    before them."""
    rest = text.encode()
    end = len(rest)
    for place in range(len(tokens), 0, -1):
        if end == 0:
            return place
        spelled = vocabulary.tokens[tokens[place - 1]]
        if rest.endswith(spelled, 0, end):
            end -= len(spelled)
        elif spelled[:1] == b" " and rest.endswith(spelled[1:], 0, end):
            end -= len(spelled) - 1
        else:
            return place - 1 if spelled.endswith(rest[:end]) else None
    return 0 if end == 0 else None
