"""What all prompts with the same tools and system messages begin with."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

from constrained.errors import TemplateError
from constrained.prompt.prompt_reuse import Messages
from constrained.prompt.turn_cache import digest
from constrained.template.special_tokens import find_free_characters
from grammars.wire.format import count_common

MOST = 64  # heads
Tokens: TypeAlias = tuple[int, ...]


class Heads:
    """How many tokens the head of a prompt has; the template is asked once for each."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Tokens] = OrderedDict()

    def measure(
        self,
        key: bytes,
        messages: Sequence[dict[str, Any]],
        tokens: Tokens,
        encode: Callable[[Messages], Tokens],
    ) -> int:
        """How many of the tokens any conversation with these tools and system messages has.

        Args:
            key: names what else the prompt depends on, see `DecodedTurns.recall`.
            messages: in normal form.
            tokens: of the prompt.
            encode: the prompt of other messages, as tokens.
        """
        system = list(takewhile(lambda message: message["role"] == "system", messages))
        key = digest(key, system)
        if key not in self._known:
            self._known[key] = _ask(system, encode)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return count_common(self._known[key], tokens)


def _ask(system: list[dict[str, Any]], encode: Callable[[Messages], Tokens]) -> Tokens:
    """The prompt of a user who says what nobody says."""
    (character,) = find_free_characters(system)
    try:
        return encode([*system, {"role": "user", "content": character}])
    except TemplateError:  # it wants other messages; then there is no head
        return ()
