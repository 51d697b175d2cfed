"""The expressions of a grammar.

An expression of a *rule* is over lexemes: pieces of text that llguidance's lexer tells apart before
the parser sees them. A `Literal` is such a piece, so is a special `Token` of the vocabulary, and so
is what a *terminal* names: inside a terminal the same expressions, with `Pattern`, `Intersection`
and `Complement`, are one regular expression.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Sequences
from dataclasses import dataclass, field
from typing import TypeAlias

from grammars.regex.deterministic import DeterministicState
from grammars.schema.bits import ALWAYS, NEVER, Condition, Keep, SetBit


@dataclass(frozen=True, slots=True)
class Literal:
    """Text as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """A special token of the vocabulary; no ordinary text spells it.

    Args:
        name: the text that it stands for in templates.
        id: its number.
    """

    name: str
    id: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression (Rust syntax) for a whole text; in terminals only.

    Args:
        regex: fit to stand between slashes in Lark.
    """

    regex: str


@dataclass(frozen=True, slots=True)
class Intersection:
    """Text that all of the parts match; in terminals only."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Complement:
    """Text that the expression does not match; in terminals only."""

    of: "Expression"


@dataclass(frozen=True, slots=True)
class Sequence:
    """One behind the other; of no parts: the empty text."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any of the options; of none: nothing can be written."""

    options: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body `fewest` to `most` times (None: any number)."""

    body: "Expression"
    fewest: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Zero:
    """The parameter with which a family of rules begins."""


Argument: TypeAlias = Keep | SetBit | Zero


@dataclass(frozen=True, slots=True)
class RuleReference:
    """Text that the rule or terminal of that name matches.

    Args:
        name: of the rule.
        argument: its parameter, where it has one.
    """

    name: str
    argument: Argument | None = None


@dataclass(frozen=True, slots=True)
class Guarded:
    """The body, where the parameter of the rule fulfils a condition; one of `Alternatives`."""

    body: "Expression"
    condition: Condition


@dataclass(frozen=True, slots=True)
class Costly:
    """The body; a shortest completion takes it only where there is nothing else.

    Such is a call where the turn may end without one: it might have effects that nobody wanted.
    """

    body: "Expression"


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A value that llguidance's own reading of a JSON Schema holds (`%json`).

    Args:
        text: the schema as JSON.
        language: what tells of a beginning how it can end; None: nobody knows.
    """

    text: str
    language: "Language | None" = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EmbeddedLark:
    """A Lark grammar of the user's own (`%lark`); how its texts end is not known."""

    text: str


class Language:
    """A set of texts whose beginnings can be ended."""

    def automaton(self, max_states: int) -> Sequences[DeterministicState] | None:
        """An automaton for just these texts; None where none is known.

        Raises:
            TooManyStatesError: it has more states than that.
        """
        return None

    def begins(self, text: str) -> bool:
        """True if a text of the set may begin so, and where that cannot be told."""
        raise NotImplementedError

    def accepts(self, text: str) -> bool:
        """True if the text is in the set."""
        raise NotImplementedError

    def extend(self, text: str) -> str | None:
        """The shortest end of a text in the set that begins so; None if none is known."""
        raise NotImplementedError


Expression: TypeAlias = (
    Literal
    | Token
    | Pattern
    | Intersection
    | Complement
    | Sequence
    | Alternatives
    | Repeat
    | RuleReference
    | Guarded
    | Costly
    | JsonSchema
    | EmbeddedLark
)

EMPTY = Sequence(())
NOTHING = Alternatives(())
ANY_TEXT = Pattern("(?s:.*)")
EVERYTHING = Complement(Pattern(r"[^\x{0}-\x{10ffff}]"))
"""Any bytes: all but what no character matches."""
ZERO = Zero()


def sequence(*parts: Expression) -> Expression:
    """The parts one behind the other, without empty ones; sequences inside are taken apart."""
    flat: list[Expression] = []
    for part in parts:
        if type(part) is Sequence:
            flat += part.parts
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def unlike(beginning: str) -> Complement:
    """No text that begins so, for an intersection in a terminal.

    What may stand behind such a beginning are any bytes, not any text: of the latter llguidance has
    to find out that it is never left, anew for each length that a text beside it may still have,
    and it fails by its limit of expressions.

    Args:
        beginning: a regular expression.
    """
    return Complement(Sequence((Pattern(f"({beginning})"), EVERYTHING)))


def choice(options: Iterable[Expression]) -> Expression:
    """Any of the options, each once; choices inside are taken apart."""
    flat: dict[Expression, None] = {}
    for option in options:
        if type(option) is Alternatives:
            flat.update(dict.fromkeys(option.options))
        else:
            flat[option] = None
    return next(iter(flat)) if len(flat) == 1 else Alternatives(tuple(flat))


def guarded(options: Iterable[tuple[Expression, Condition]]) -> Expression:
    """Options of a rule with a parameter, each under its condition, without impossible ones."""
    possible: list[Expression] = []
    for body, condition in options:
        if condition == ALWAYS:
            possible.append(body)
        elif condition != NEVER:
            possible.append(Guarded(body, condition))
    return possible[0] if len(possible) == 1 else Alternatives(tuple(possible))


def optional(body: Expression) -> Expression:
    """The body or nothing."""
    return body if body == EMPTY else Repeat(body, 0, 1)


def many(body: Expression) -> Expression:
    """The body any number of times."""
    return Repeat(body, 0, None)


def intersection(*parts: Expression) -> Expression:
    """Text that all of the parts match; intersections inside are taken apart."""
    flat: list[Expression] = []
    for part in parts:
        if type(part) is Intersection:
            flat += part.parts
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Intersection(tuple(flat))
