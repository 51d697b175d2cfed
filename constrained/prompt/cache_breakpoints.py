"""Cache breakpoints: the ends of prefixes that other prompts are likely to share, whose KV cache is
kept longest. One is after the tools and system messages, others after the messages that the caller
names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import TemplateError
from constrained.prompt.prompt_reuse import Messages, Write
from constrained.prompt.template.special_tokens import find_free_characters
from constrained.prompt.turn_cache import digest
from grammars.limits.byte_cache import MIB, ByteCache, CacheSize
from grammars.wire.format import count_common

MAX_BREAKPOINTS = 4  # breakpoints of one prompt, besides that of the tools and system messages
PREFIXES = 16 * MIB  # shared prefixes: 400,000 tokens
Tokens: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class CacheBreakpoints:
    """The positions at which a prompt may differ from others, in tokens: `shared` by all
    conversations with these tools and system messages; all `places`, including `shared` if it is
    not 0; where the generation prompt begins (`closed`; 0: not known), since the next prompt may
    have other tokens from there on."""

    shared: int = 0
    places: tuple[int, ...] = ()
    closed: int = 0


NO_BREAKPOINTS = CacheBreakpoints()


class SharedPrefixes:
    """Finds the common prefix of all prompts with the same tools and system messages, by rendering
    a user message that no real one equals."""

    def __init__(self) -> None:
        self._known: ByteCache[Tokens] = ByteCache(PREFIXES)

    @property
    def size(self) -> CacheSize:
        return self._known.size

    def measure(
        self,
        key: bytes,
        messages: Sequence[dict[str, Any]],
        *,
        tokens: Tokens,
        encode: Callable[[Messages], Tokens],
    ) -> int:
        """Returns the number of first tokens of any conversation with these tools and system
        messages. `key` names what else the prompt depends on."""
        system = list(takewhile(lambda message: message["role"] == "system", messages))
        key = digest(key, system)
        shared = self._known.find(key, None)
        if shared is None:
            shared = _encode_shared(system, encode)
            self._known.keep(key, shared)
        return count_common(shared, tokens)


def _encode_shared(system: list[dict[str, Any]], encode: Callable[[Messages], Tokens]) -> Tokens:
    (character,) = find_free_characters(system)
    try:
        return encode([*system, {"role": "user", "content": character}])
    except TemplateError:  # the template refuses these messages: no shared prefix is known
        return ()


@dataclass(frozen=True)
class TokenizedPrompt:
    """A prompt as text and as tokens, to count those of its first characters. `reused` are those of
    earlier turns: their text may differ from the rendered one, so positions after them are counted
    from the end."""

    text: str
    tokens: Tokens
    reused: int
    vocabulary: Vocabulary

    def find_breakpoints(self, counts: Sequence[int], messages: Messages, write: Write) -> set[int]:
        """Returns the numbers of tokens of first messages; of the last counts, if there are many. A
        template that refuses a part of the conversation has no such breakpoint."""
        found = set[int]()
        for count in sorted({*counts} - {0})[-MAX_BREAKPOINTS:]:
            try:
                part = write(messages[:count]).text
            except TemplateError:
                continue
            length = count_common(part, self.text)
            position = self._count_from_start(self.text[:length])
            if position is None and self.reused:
                position = self._count_from_end(self.text[length:], start=self.reused)
            if position:
                found.add(position)
        return found

    def count_closed(self, closed: str) -> int:
        """Counts the tokens before the generation prompt; 0: not known."""
        generation_prompt = self.text[count_common(closed, self.text) :]
        return self._count_from_end(generation_prompt) or 0

    def _count_from_start(self, text: str) -> int | None:
        """Counts the whole tokens of the prompt that spell the text; None: its tokens differ. It
        may begin with BOS, and with spaces that SentencePiece adds."""
        data, offset = text.encode(), 0
        for position, token in enumerate(self.tokens):
            spelled = self.vocabulary.tokens[token]
            if offset == len(data):
                return position
            if data.startswith(spelled, offset):
                offset += len(spelled)
            elif spelled[:1] == b" " and data.startswith(spelled[1:], offset):
                offset += len(spelled) - 1
            elif position or token != self.vocabulary.bos:
                is_cut = spelled.removeprefix(b" ").startswith(data[offset:])
                return position if is_cut else None
        return len(self.tokens)

    def _count_from_end(self, text: str, *, start: int = 0) -> int | None:
        """Counts the tokens before the last ones, which spell the text; None: the text begins
        before the token `start`."""
        data = text.encode()
        end = len(data)
        for position in range(len(self.tokens), start, -1):
            if end == 0:
                return position
            spelled = self.vocabulary.tokens[self.tokens[position - 1]]
            if data.endswith(spelled, 0, end):
                end -= len(spelled)
            elif spelled[:1] == b" " and data.endswith(spelled[1:], 0, end):
                end -= len(spelled) - 1
            else:
                return position - 1 if spelled.endswith(data[:end]) else None
        return start if end == 0 else None
