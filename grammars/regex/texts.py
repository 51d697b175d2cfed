"""Sets of texts as regular expressions: a terminal of the grammar, and an automaton."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from grammars.limits.steps import StepsError, limit_steps
from grammars.regex.automaton import Automaton, compile_regexes
from grammars.regex.writing import write_character

ANY = "(?s:.*)"
SPACES = r"\x09-\x0d \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space, for use inside brackets, in Rust and Python."""


@dataclass(frozen=True)
class Texts:
    """The texts that all of `parts` and none of `without` match (Rust syntax); by default, all."""

    parts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        """True if it is every text."""
        return not self.parts and not self.without

    @property
    def automaton(self) -> Automaton | None:
        """The automaton of these texts; None: an expression cannot be read."""
        return compile_regexes(self.parts or (ANY,), self.without)

    def accepts(self, text: str) -> bool:
        """Returns whether the text is one of them, or if this is not known."""
        return self.is_free or self.automaton is None or self.automaton.accepts(text)

    def is_empty(self) -> bool:
        """Returns whether it is known that there is no text."""
        return self.automaton is not None and self.automaton.is_empty()

    def has_text(self, max_steps: int) -> bool | None:
        """Returns whether there is a text; None: that takes more steps to find out."""
        with suppress(StepsError), limit_steps(max_steps):
            if self.extend("") is not None:
                return True
            if self.is_empty():
                return False
        return None

    def extend(self, text: str) -> str | None:
        """Finds the shortest text that completes this one; None: none is known."""
        return self.automaton.extend(text) if self.automaton else None

    def intersect(self, other: "Texts") -> "Texts":
        """Returns the intersection of the sets."""
        return Texts(
            tuple(dict.fromkeys(self.parts + other.parts)),
            tuple(dict.fromkeys(self.without + other.without)),
        )

    def wrap(self, before: str, after: str) -> "Texts":
        """Adds a text before and after each text."""

        def wrap_regex(regex: str) -> str:
            return f"{_write(before)}({regex}){_write(after)}"

        return Texts(
            tuple(map(wrap_regex, self.parts or (ANY,))), tuple(map(wrap_regex, self.without))
        )


FREE = Texts()


def match_words(words: Sequence[str]) -> tuple[str, ...]:
    """Returns regexes for just these words; () if there are none."""
    if not words:
        return ()
    return (f"({'|'.join(map(_write, words))})",)


def _write(word: str) -> str:
    return "".join(map(write_character, word))
