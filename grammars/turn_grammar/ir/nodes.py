"""The expressions of a grammar.

The expression of a *rule* is over lexemes: pieces of text that llguidance's lexer separates before
the parser sees them. A `Literal`, a special `Token` of the vocabulary, and a *terminal* are one
lexeme each. The expression of a terminal is one regular expression; it may also contain `Pattern`,
`Intersection` and `Complement`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from grammars.schema.bits import ALWAYS, NEVER, Condition, Keep, SetBit


@dataclass(frozen=True, slots=True)
class Literal:
    """Fixed text."""

    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """A special token of the vocabulary; ordinary text never produces it."""

    name: str
    id: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression (Rust syntax) for the whole text, escaped for use between slashes in
    Lark; only in terminals."""

    regex: str


@dataclass(frozen=True, slots=True)
class Intersection:
    """Text that all parts match; only in terminals."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Complement:
    """Text that the expression does not match; only in terminals."""

    of: "Expression"


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts, one after the other; without parts: the empty text."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Any of the options; without options: nothing matches."""

    options: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body `fewest` to `most` times (None: any number)."""

    body: "Expression"
    fewest: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Zero:
    """The initial parameter of a family of rules."""


Argument: TypeAlias = Keep | SetBit | Zero


@dataclass(frozen=True, slots=True)
class RuleReference:
    """Text that the rule or terminal with this name matches, with its parameter, if it has one."""

    name: str
    argument: Argument | None = None


@dataclass(frozen=True, slots=True)
class Guarded:
    """The body, if the parameter of the rule meets the condition; only in `Alternatives`."""

    body: "Expression"
    condition: Condition


@dataclass(frozen=True, slots=True)
class Costly:
    """The body; a shortest completion uses it only if there is no other way. An example is a call
    in a turn that may end without one: it might have unwanted effects."""

    body: "Expression"


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A value that llguidance enforces with its own JSON Schema support (`%json`). The language
    finds endings of such values; None: they are not known."""

    text: str
    language: "Language | None" = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EmbeddedLark:
    """A Lark grammar that the user wrote (`%lark`); endings of its texts are not known."""

    text: str


class Language:
    """A set of texts that can complete the beginnings of its texts."""

    def begins(self, text: str) -> bool:
        """Returns whether a text of the set may begin like this, or if it is not known."""
        raise NotImplementedError

    def accepts(self, text: str) -> bool:
        """Returns whether the text is in the set."""
        raise NotImplementedError

    def extend(self, text: str) -> str | None:
        """Returns the shortest rest of a text of the set that begins like this; None: not known."""
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
"""Any bytes: everything except what no character matches."""
ZERO = Zero()


def sequence(*parts: Expression) -> Expression:
    """Returns the parts, one after the other. Flattens nested sequences and drops empty ones."""
    flat: list[Expression] = []
    for part in parts:
        if type(part) is Sequence:
            flat += part.parts
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def exclude_beginning(beginning: str) -> Complement:
    """Excludes texts that begin with this regular expression, for an intersection in a terminal.

    After the beginning, any bytes are excluded, not any text: for text, llguidance would have to
    find out that it never ends, once for each length that another part of the intersection still
    allows, and would exceed its limit of expressions.
    """
    return Complement(Sequence((Pattern(f"({beginning})"), EVERYTHING)))


def choice(options: Iterable[Expression]) -> Expression:
    """Returns an expression for any of the options, without duplicates. Flattens nested choices."""
    flat: dict[Expression, None] = {}
    for option in options:
        if type(option) is Alternatives:
            flat.update(dict.fromkeys(option.options))
        else:
            flat[option] = None
    return next(iter(flat)) if len(flat) == 1 else Alternatives(tuple(flat))


def guarded(options: Iterable[tuple[Expression, Condition]]) -> Expression:
    """Returns the options of a rule with a parameter, without those that are impossible."""
    possible: list[Expression] = []
    for body, condition in options:
        if condition == ALWAYS:
            possible.append(body)
        elif condition != NEVER:
            possible.append(Guarded(body, condition))
    return possible[0] if len(possible) == 1 else Alternatives(tuple(possible))


def optional(body: Expression) -> Expression:
    return body if body == EMPTY else Repeat(body, 0, 1)


def many(body: Expression) -> Expression:
    return Repeat(body, 0, None)


def intersection(*parts: Expression) -> Expression:
    """Returns an expression for text that all parts match. Flattens nested intersections."""
    flat: list[Expression] = []
    for part in parts:
        if type(part) is Intersection:
            flat += part.parts
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Intersection(tuple(flat))
