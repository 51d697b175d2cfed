"""Parses the beginning of a text with a grammar, as llguidance does, and finds its endings.

This is Earley's algorithm (J. Earley, An Efficient Context-Free Parsing Algorithm, 1970): for each
offset there is a set of items, which are rules that are being read; the predictor begins the rule
that an item needs next, the completer goes on with the items that wait for a rule that has ended,
and the scanner reads text. The methods `_predict`, `_complete` and `_scan` are these three. Three
things differ from the textbook: an item has the rest of its rule's body where others have a dot in
it; the items that wait for a rule are listed at its `ItemOrigin`; and the input are lexemes.

As in llguidance, the lexer decides where a lexeme ends, depending on the lexemes that may begin at
its start: it continues while any of them can, and a lazy lexeme ends at its first match. A special
token ends the lexeme before it. If a text spells a special token in ordinary characters, both
readings are kept: the chart may accept more than llguidance, but never less.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from grammars.limits.steps import spend
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.ir.lexer import Lexer, Machine, Position
from grammars.turn_grammar.ir.shortest import (
    NO_TEXT,
    Completion,
    Shortest,
    apply,
    find_end,
    join,
    pick_shorter,
)


@dataclass(eq=False, slots=True)
class Rest:
    """The part of a rule's body that is not read yet: what is behind the dot of an item. The
    endings are the shortest texts of it, as far as known, by the parameter of the rule."""

    expression: ir.Expression
    after: "Rest | None"
    endings: dict[int, Completion | None] = field(default_factory=dict[int, "Completion | None"])


class RestTable:
    """The rests of a chart. Equal ones are the same object."""

    def __init__(self) -> None:
        self._rests: dict[tuple[int, int], Rest] = {}
        self._fewer: dict[int, ir.Repeat] = {}  # by the ids of repeats, which `_rests` keeps alive

    def link(self, expression: ir.Expression, after: Rest | None) -> Rest:
        """Returns the rest of an expression and what is after it."""
        key = id(expression), id(after)
        rest = self._rests.get(key)
        if rest is None:
            rest = self._rests[key] = Rest(expression, after)
        return rest

    def repeat(self, repeat: ir.Repeat, after: Rest | None) -> Iterator[Rest | None]:
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
            again = self._fewer.setdefault(id(repeat), ir.Repeat(body, max(0, fewest - 1), left))
        yield self.link(body, after if again.most == 0 else self.link(again, after))


class Item(NamedTuple):
    """A rule that is being read, and how many costly expressions it entered since the last
    lexeme."""

    rest: Rest | None
    bits: int
    origin: "ItemOrigin"
    costly: int = 0

    def with_rest(self, rest: Rest | None) -> "Item":
        # Ten times as fast as `_replace`; it is called for each option of a choice of thousands.
        return Item(rest, self.bits, self.origin, self.costly)


@dataclass(eq=False, slots=True)
class ItemOrigin:
    """Where a rule began; its items share it. The callers go on when the rule has ended. It is
    blank if it can match the empty text."""

    start: int
    callers: list[Item] = field(default_factory=list[Item])
    is_blank: bool = False


Lexeme: TypeAlias = ir.Expression
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


MAX_COSTLY = 4
"""Up to this number, nested costly expressions are counted."""


class UnknownEndError(Exception):
    """The text is in a grammar that the user wrote, whose endings are not known."""


class Chart:
    """All readings of a text that grows."""

    def __init__(self, grammar: Grammar, lexer: Lexer):
        self.text = ""
        self._rules = grammar.rules
        self._lexer = lexer
        self._names = _express_tokens(grammar)
        self._longest_name = max(map(len, grammar.tokens), default=0)
        self._rests = RestTable()
        self._root = ItemOrigin(0)
        self._open: list[ItemSet] = []
        self._token_ends: set[int] = set()  # ends of texts that are read as special tokens
        self._due: dict[int, list[Item]] = {}
        self._begin(0, [Item(self._rests.link(grammar.start, None), 0, self._root)])

    def may_grow_to(self, text: str) -> bool:
        """Returns whether the text begins with the current one, and no special token of it is
        cut."""
        if not text.startswith(self.text):
            return False
        end = len(self.text)
        return not any(at < end < at + len(name) for at, name in self._find_tokens(text).items())

    def grow(self, text: str) -> None:
        """Reads more text; the whole text begins with the current one."""
        tokens = self._find_tokens(text)
        sets, self._open = self._open, []
        since, self.text = len(self.text), text
        for item_set in sets:
            self._scan(item_set, since, tokens)
        while self._due:
            start = min(self._due)
            item_set = self._begin(start, self._due.pop(start))
            if item_set is not None:
                self._scan(item_set, start, tokens)

    def _find_tokens(self, text: str) -> dict[int, str]:
        """Returns the special tokens in the new part of a text, by offset."""
        since = max(0, len(self.text) - self._longest_name)
        return {found.start(): found[1] for found in self._names.finditer(text, since)}

    @property
    def lexeme_start(self) -> int:
        """The offset of the last lexeme; if there are several readings, the smallest."""
        return min((item_set.start for item_set in self._open), default=len(self.text))

    def has_reading(self, since: int | None = None) -> bool:
        """Returns whether the text has a reading. With `since`: one whose last lexeme began at or
        before this offset, without a special token after the offset."""
        if since is None:
            return bool(self._open)
        if any(end > since for end in self._token_ends):
            return False
        return any(item_set.start <= since for item_set in self._open)

    def find_endings(self, shortest: Shortest) -> Iterator[Completion]:
        """Yields the shortest ending of each reading.

        Text that spells a special token was most likely meant as that token, so other readings
        count only if that one has no ending.
        """
        if any(item_set.may_end and item_set.start == len(self.text) for item_set in self._open):
            yield NO_TEXT
            return
        endings = ReadingEndings(self._root, shortest)
        latest = max((item_set.start for item_set in self._open), default=0)
        since = max((end for end in self._token_ends if end <= latest), default=0)
        likely = [item_set for item_set in self._open if item_set.start >= since]
        found = [*endings.find(likely)]
        if not found:
            found = [*endings.find(self._open)]
        yield from found

    def fork(self) -> "Chart":
        """Returns a chart of the same text, which grows independently. Origins are shared, since
        none changes after its item set has begun."""
        other = copy(self)
        other._due = {}
        other._token_ends = set(self._token_ends)
        other._open = [copy(item_set) for item_set in self._open]
        return other

    def _begin(self, start: int, items: list[Item]) -> ItemSet | None:
        """Begins a set with these items; None if it is not to be scanned (yet)."""
        item_set = ItemSet(start)
        self._predict_and_complete(items, item_set)
        for lexeme in item_set.waiting:
            machine = self._lexer.machine(lexeme)
            item_set.running.append(LexemeRun(lexeme, machine, machine.start))
        if not item_set.running and not item_set.may_end:
            return None
        if start == len(self.text):
            self._open.append(item_set)
            return None
        return item_set

    def _predict_and_complete(self, items: list[Item], item_set: ItemSet) -> None:
        """Expands the items, the last one first, until all that are left wait for lexemes."""
        while items:
            spend()
            item = items.pop()
            key = id(item.rest), item.bits, id(item.origin), item.costly
            if key in item_set.seen:
                continue
            item_set.seen[key] = item
            if item.rest is None:
                self._complete(item.origin, item_set, items)
            else:
                self._expand(item.rest, item, item_set, items)

    def _complete(self, origin: ItemOrigin, item_set: ItemSet, items: list[Item]) -> None:
        """The completer: continues the callers of a rule that has ended."""
        if origin is self._root:
            item_set.may_end = True
        if origin.start == item_set.start:
            origin.is_blank = True
        items += origin.callers

    def _expand(self, rest: Rest, item: Item, item_set: ItemSet, items: list[Item]) -> None:
        """Expands the next expression of an item: adds new items, or waits for a lexeme."""
        match rest.expression:
            case ir.Sequence(parts):
                after = rest.after
                for part in reversed(parts):
                    after = self._rests.link(part, after)
                items.append(item.with_rest(after))
            case ir.Literal(""):
                items.append(item.with_rest(rest.after))
            case ir.Alternatives(options):
                for option in options:
                    items.append(item.with_rest(self._rests.link(option, rest.after)))
            case ir.Guarded(body, condition):
                if condition.holds(item.bits):
                    items.append(item.with_rest(self._rests.link(body, rest.after)))
            case ir.Costly(body):
                body_rest = self._rests.link(body, rest.after)
                costly = min(item.costly + 1, MAX_COSTLY)  # a repeat may enter it often
                items.append(item._replace(rest=body_rest, costly=costly))
            case ir.Repeat() as repeat:
                for following in self._rests.repeat(repeat, rest.after):
                    items.append(item.with_rest(following))
            case ir.RuleReference(name) as reference if not self._rules[name].is_terminal:
                items += self._predict(reference, item, item_set)
            case ir.EmbeddedLark():
                raise UnknownEndError
            case lexeme:
                following = item.with_rest(rest.after)
                item_set.waiting.setdefault(lexeme, []).append(following)
                if not isinstance(lexeme, ir.Token):
                    machine = self._lexer.machine(lexeme)
                    if machine.accepts(machine.start):  # llguidance skips an empty lexeme
                        items.append(following)

    def _predict(self, reference: ir.RuleReference, item: Item, item_set: ItemSet) -> list[Item]:
        """The predictor: begins the rule that comes next in an item; returns what to expand."""
        assert item.rest is not None, "the reference is in it"
        name, after = reference.name, item.rest.after
        given = 0 if reference.argument is None else apply(reference.argument, item.bits)
        body = self._rests.link(self._rules[name].body, None)
        if after is None:
            # A tail call: long lists need no deep stack.
            return [Item(body, given, item.origin, item.costly)]
        called = item_set.origins.setdefault((name, given), ItemOrigin(item_set.start))
        following = Item(after, item.bits, item.origin)
        called.callers.append(following)
        begun = Item(body, given, called, item.costly)
        return [begun, following] if called.is_blank else [begun]

    def _scan(self, item_set: ItemSet, since: int, tokens: dict[int, str]) -> None:
        """The scanner: reads the lexemes of a set from an offset on, until one or the text ends."""
        text, running, offset = self.text, item_set.running, since
        stops = [at for at in tokens if at >= since]
        while offset < len(text):
            if offset in tokens:
                self._read_token(item_set, running, offset, tokens[offset])
            if len(running) == 1:
                # Most of a text is long strings, in which no other lexeme is possible.
                lexeme, machine, at = running[0]
                stop = next((at for at in stops if at > offset), len(text))
                at, offset = machine.skip(at, text, offset, stop)
                running = [LexemeRun(lexeme, machine, at)]
                if offset == stop:
                    continue
            spend(len(running))
            following: list[LexemeRun] = []
            is_over = False
            for lexeme, machine, at in running:
                after = machine.step(at, text[offset])
                if after is not None:
                    following.append(LexemeRun(lexeme, machine, after))
                    if machine.lazy and machine.accepts(after):
                        is_over = True
            if not following:
                self._emit(item_set, running, offset)
                return
            running = following
            offset += 1
            if is_over:
                self._emit(item_set, running, offset)
                return
        item_set.running = running
        self._open.append(item_set)

    def _read_token(
        self, item_set: ItemSet, running: list[LexemeRun], offset: int, name: str
    ) -> None:
        """Reads a special token at the offset, which ends a lexeme, or is the first of the set."""
        if offset > item_set.start:
            self._emit(item_set, running, offset)
            return
        for lexeme in item_set.waiting:
            if isinstance(lexeme, ir.Token) and lexeme.name == name:
                self._token_ends.add(offset + len(name))
                self._leave_lexeme(item_set, lexeme, offset + len(name))

    def _emit(self, item_set: ItemSet, running: list[LexemeRun], offset: int) -> None:
        for lexeme, machine, at in running:
            if offset > item_set.start and machine.accepts(at):
                self._leave_lexeme(item_set, lexeme, offset)

    def _leave_lexeme(self, item_set: ItemSet, lexeme: Lexeme, offset: int) -> None:
        due = self._due.setdefault(offset, [])
        for item in item_set.waiting[lexeme]:
            due.append(Item(item.rest, item.bits, item.origin))


def _express_tokens(grammar: Grammar) -> re.Pattern[str]:
    names = sorted(grammar.tokens, key=len, reverse=True)
    return re.compile(f"(?=({'|'.join(map(re.escape, names)) or '(?!)'}))")


MAX_ENDINGS = 1_000
"""How many endings of a rest are kept: one for each parameter of its rule."""


class ReadingEndings:
    """The endings of the readings of one text. Nothing follows behind the root, the whole turn."""

    def __init__(self, root: ItemOrigin, shortest: Shortest):
        self._shortest = shortest
        self._known: dict[ItemOrigin, Completion | None] = {root: NO_TEXT}

    def find(self, sets: Iterable[ItemSet]) -> Iterator[Completion]:
        """Yields, for each lexeme that is being read, its shortest rest with the text after it."""
        for item_set in sets:
            for lexeme, machine, at in item_set.running:
                end = find_end(machine, at)
                if end is None:
                    continue
                for item in item_set.waiting[lexeme]:
                    spend()
                    after = self._follow(item)
                    if after is not None:
                        yield join(end._replace(costly=item.costly), after)

    def _follow(self, item: Item) -> Completion | None:
        """Returns the shortest text for the rest of a rule and of all its callers."""
        rest = _find_rest(item, self._shortest)
        if rest is None:
            return None
        above = self._leave(item.origin)
        return None if above is None else join(rest, above)

    def _leave(self, origin: ItemOrigin) -> Completion | None:
        """Returns the shortest text after a rule; without recursion, since values may nest
        deeply."""
        known = self._known
        stack = [origin]
        while stack:
            top = stack[-1]
            spend(1 + len(top.callers))
            if known.get(top) is not None:
                stack.pop()
                continue
            missing = [c.origin for c in top.callers if c.origin not in known]
            if top not in known and missing:
                known[top] = None  # a path that returns to it is not the shortest
                stack += missing
                continue
            best: Completion | None = None
            for item in top.callers:
                rest, above = _find_rest(item, self._shortest), known.get(item.origin)
                if rest is not None and above is not None:
                    best = pick_shorter(best, join(rest, above))
            known[top] = best
            stack.pop()
        return known[origin]


def _find_rest(item: Item, shortest: Shortest) -> Completion | None:
    rest, bits = item.rest, item.bits
    unknown: list[Rest] = []  # no recursion: a constant list may have thousands of parts
    while rest is not None and bits not in rest.endings:
        unknown.append(rest)
        rest = rest.after
    found = NO_TEXT if rest is None else rest.endings[bits]
    for longer in reversed(unknown):
        if len(longer.endings) >= MAX_ENDINGS:
            longer.endings.clear()
        ending = shortest.find(longer.expression, bits)
        found = None if ending is None or found is None else join(ending, found)
        longer.endings[bits] = found
    return found
