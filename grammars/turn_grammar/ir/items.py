"""What Earley's algorithm reads: items, where their rules began, and the sets of items."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from grammars.turn_grammar.ir.lexer import Machine, Position
from grammars.turn_grammar.ir.nodes import Expression, Repeat
from grammars.turn_grammar.ir.shortest import Completion


@dataclass(eq=False, slots=True)
class Rest:
    """The part of a rule's body that is not read yet: what is behind the dot of an item.

    Args:
        endings: the shortest texts of both, as far as known, by the parameter of the rule.
    """

    expression: Expression
    after: "Rest | None"
    endings: dict[int, Completion | None] = field(default_factory=dict[int, "Completion | None"])


class RestTable:
    """The rests of a chart. Equal ones are the same object."""

    def __init__(self) -> None:
        self._rests: dict[tuple[int, int], Rest] = {}
        self._fewer: dict[int, Repeat] = {}  # by the ids of repeats, which `_rests` keeps alive

    def link(self, expression: Expression, after: Rest | None) -> Rest:
        """Returns the rest of an expression and what is after it."""
        key = id(expression), id(after)
        rest = self._rests.get(key)
        if rest is None:
            rest = self._rests[key] = Rest(expression, after)
        return rest

    def repeat(self, repeat: Repeat, after: Rest | None) -> Iterator[Rest | None]:
        """Yields the continuations of a repeat: its body once more, or what follows the repeat."""
        body, fewest, most = repeat.body, repeat.fewest, repeat.most
        if fewest == 0:
            yield after
        if most == 0:
            return
        if fewest == 0 and most is None:
            again = repeat
        else:
            left = None if most is None else most - 1
            again = self._fewer.setdefault(id(repeat), Repeat(body, max(0, fewest - 1), left))
        yield self.link(body, after if again.most == 0 else self.link(again, after))


class Item(NamedTuple):
    """A rule that is being read.

    Args:
        costly: how many costly expressions were entered since the last lexeme.
    """

    rest: Rest | None
    bits: int
    origin: "ItemOrigin"
    costly: int = 0

    def with_rest(self, rest: Rest | None) -> "Item":
        # Ten times as fast as `_replace`; it is called for each option of a choice of thousands.
        return Item(rest, self.bits, self.origin, self.costly)


@dataclass(eq=False, slots=True)
class ItemOrigin:
    """Where a rule began; its items share it.

    Args:
        callers: the items that wait for the rule, and go on when it has ended.
        is_blank: the rule can match the empty text.
    """

    start: int
    callers: list[Item] = field(default_factory=list[Item])
    is_blank: bool = False


Lexeme: TypeAlias = Expression
"""An expression that the scanner reads."""


class LexemeRun(NamedTuple):
    """A lexeme that is being read."""

    lexeme: Lexeme
    machine: Machine
    at: Position


@dataclass(eq=False, slots=True)
class ItemSet:
    """The items at an offset of the text at which lexemes begin.

    Args:
        waiting: for each lexeme that may come next: the items that wait for it.
        origins: of the rules that began here, by name and parameter.
        seen: all items. This keeps their origins alive, so that no other one gets the same `id`.
    """

    start: int
    waiting: dict[Lexeme, list[Item]] = field(default_factory=dict[Lexeme, list[Item]])
    running: list[LexemeRun] = field(default_factory=list[LexemeRun])
    may_end: bool = False
    origins: dict[tuple[str, int], ItemOrigin] = field(
        default_factory=dict[tuple[str, int], ItemOrigin]
    )
    seen: dict[tuple[int, int, int, int], Item] = field(
        default_factory=dict[tuple[int, int, int, int], Item]
    )
