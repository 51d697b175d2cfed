"""Finds the shortest text of each expression of a grammar."""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple, TypeAlias

from grammars.limits.steps import spend
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import Rule
from grammars.turn_grammar.ir.lexer import Lexer, Machine, Position

MAX_SPELLED = 32_768
"""The limit for endings that are written out and tried, in characters; of longer ones only the
length is known."""
_SHORT = 256  # characters; shorter texts are joined immediately, not when they are spelled
MAX_KEPT = 20_000
"""The limit for cached texts of family members: an object with 40 optional keys has 2^40
members."""
MAX_TRIED = 2_000
"""The limit for orders of members that are tried; beyond it, the text is not known."""
MANY = 64
"""In a choice with more options than this, not every option is tried each time."""
MAX_LIKELY = 64
"""How many options of such a choice are tried: those with the smallest lower bounds."""
NEVER = (10**18, 0)
"""The measure of an expression without an ending."""


class Repeated(NamedTuple):
    """Pieces, repeated."""

    pieces: "Pieces"
    times: int


class Joined(NamedTuple):
    """Two pieces, one after the other."""

    first: "Pieces"
    second: "Pieces"


class Unspelled(NamedTuple):
    """A text that is too long to be written."""


Pieces: TypeAlias = str | Repeated | Joined | Unspelled


class Completion(NamedTuple):
    """A text that ends something: how many costly expressions it has, its size in characters, its
    parts. It is not written out, since the shortest value of a schema of 300 bytes may be larger
    than the memory."""

    costly: int
    size: int
    pieces: Pieces

    def spell(self) -> str:
        """Writes the text, which must not have more than `MAX_SPELLED` characters."""
        assert self.size <= MAX_SPELLED
        texts: list[str] = []
        stack: list[Pieces] = [self.pieces]
        while stack:
            match stack.pop():
                case str(text):
                    texts.append(text)
                case Joined(first, second):
                    stack += [second, first]
                case Repeated(pieces, count):
                    stack += [pieces] * count
                case Unspelled():
                    raise AssertionError("it is longer than that")
        return "".join(texts)


NO_TEXT = Completion(0, 0, "")


def join(first: Completion, second: Completion) -> Completion:
    costly, size = first.costly + second.costly, first.size + second.size
    if not first.size or not second.size:
        return Completion(costly, size, first.pieces or second.pieces)
    if size <= _SHORT and isinstance(first.pieces, str) and isinstance(second.pieces, str):
        return Completion(costly, size, first.pieces + second.pieces)
    return Completion(costly, size, Joined(first.pieces, second.pieces))


def repeat(once: Completion, count: int) -> Completion:
    costly, size = once.costly * count, once.size * count
    if not size:
        return Completion(costly, 0, "")
    if size > MAX_SPELLED:
        return Completion(costly, size, Unspelled())
    return Completion(costly, size, Repeated(once.pieces, count))


def find_end(machine: Machine, at: Position) -> Completion | None:
    """Returns the shortest rest of a lexeme; None: not known."""
    least = machine.measure(at)
    if least > MAX_SPELLED:
        return Completion(0, least, Unspelled())
    end = machine.end(at)
    return None if end is None else Completion(0, len(end), end)


def measure(ending: Completion) -> tuple[int, int]:
    """Returns the sort key of endings: first the number of costly expressions, then the length."""
    return ending.costly, ending.size


def pick_shorter(known: Completion | None, other: Completion | None) -> Completion | None:
    """Returns the better ending; the first one if both are equal."""
    if known is None or (other is not None and measure(other) < measure(known)):
        return other
    return known


class CircleError(Exception):
    """A rule refers to itself, so its text must be found together with those of other rules."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


class Member(NamedTuple):
    """A rule of a family, with its parameter."""

    name: str
    bits: int


class Way(NamedTuple):
    """A path through the body of such a rule: an ending, and the member after it, if any."""

    ending: Completion
    after: Member | None


class Shortest:
    """Finds the shortest texts of a grammar, each once."""

    def __init__(self, rules: Mapping[str, Rule], lexer: Lexer):
        self._rules = rules
        self._lexer = lexer
        self._texts: dict[str, Completion | None] = {}  # the texts of rules without a parameter
        self._members: dict[Member, Completion | None] = {}
        self._under_way = set[str]()
        self._is_solving = False  # `_texts` has texts that may not be the shortest yet
        self._options = _OptionIndex()

    def find(self, expression: ir.Expression, bits: int = 0) -> Completion | None:
        """Returns the shortest text of an expression, with the rule's parameter; None: not
        known."""
        try:
            return self._text(expression, bits)
        except (CircleError, RecursionError):
            self._under_way.clear()
            for name in _find_references(expression, self._rules):
                self._solve_circle(name)
            return self._text(expression, bits)
        finally:
            self._under_way.clear()  # also after an error, such as too many steps

    def _find_rule(self, name: str) -> Completion | None:
        if name in self._texts:
            return self._texts[name]
        if name in self._under_way:
            raise CircleError(name)
        self._under_way.add(name)
        try:
            text = self._text(self._rules[name].body, 0)
        except CircleError as circle:
            if circle.name != name:
                raise
            self._solve_circle(name)
            text = self._texts[name]
        finally:
            self._under_way.discard(name)
        self._texts[name] = text
        return text

    def _solve_circle(self, name: str) -> None:
        """Finds the texts of a rule and of all rules that it refers to, if they refer to each
        other.

        All start without a text and are measured again until nothing changes: a shortest text never
        contains a text of the same rule.
        """
        if name in self._texts:
            return
        order = self._find_below(name)
        self._texts.update(dict.fromkeys(order))
        is_solved = False
        was_solving, self._is_solving = self._is_solving, True
        try:
            changed = True
            while changed:
                changed = self._improve(order)
            is_solved = True
        finally:
            self._is_solving = was_solving
            if not is_solved:  # too many steps: the texts may not be the shortest
                self._members.clear()
                for rule in order:
                    del self._texts[rule]

    def _improve(self, order: list[str]) -> bool:
        """Measures each rule again; returns whether one became shorter."""
        changed = False
        self._members.clear()
        for rule in order:
            known = self._texts[rule]
            better = pick_shorter(known, self._text(self._rules[rule].body, 0))
            if better is not known:
                self._texts[rule] = better
                changed = True
        return changed

    def _find_below(self, name: str) -> list[str]:
        """Returns the rules below this one without a known text, those that a rule needs before
        it."""
        order: list[str] = []
        seen = {name}
        stack = [(name, _find_references(self._rules[name].body, self._rules))]
        while stack:
            rule, references = stack[-1]
            for reference in references:
                if reference not in seen and reference not in self._texts:
                    seen.add(reference)
                    stack.append(
                        (reference, _find_references(self._rules[reference].body, self._rules))
                    )
                    break
            else:
                stack.pop()
                order.append(rule)
        return order

    def _text(self, expression: ir.Expression, bits: int) -> Completion | None:
        """Returns the shortest text of an expression, given the known texts of rules."""
        spend()
        match expression:
            case ir.Sequence(parts):
                return self._text_of_all(parts, bits)
            case ir.Alternatives(options):
                best: Completion | None = None
                for option in options:
                    best = pick_shorter(best, self._text(option, bits))
                    if best == NO_TEXT:
                        break
                return best
            case ir.Repeat(body, fewest):
                if fewest == 0:
                    return NO_TEXT
                once = self._text(body, bits)
                if once is None:
                    return None
                return repeat(once, fewest)
            case ir.Guarded(body, condition):
                return self._text(body, bits) if condition.holds(bits) else None
            case ir.Costly(body):
                text = self._text(body, bits)
                if text is None:
                    return None
                return text._replace(costly=text.costly + 1)
            case ir.RuleReference(name, None) if not self._rules[name].is_terminal:
                return self._find_rule(name)
            case ir.RuleReference(name, argument) if argument is not None:
                return self._find_member(Member(name, apply(argument, bits)))
            case ir.EmbeddedLark():
                return None
            case _:
                machine = self._lexer.machine(expression)
                return find_end(machine, machine.start)

    def _text_of_all(self, parts: tuple[ir.Expression, ...], bits: int) -> Completion | None:
        whole = NO_TEXT
        for part in parts:
            ending = self._text(part, bits)
            if ending is None:
                return None
            whole = join(whole, ending)
        return whole

    def _find_member(self, start: Member) -> Completion | None:
        """Returns the shortest text of a rule with this parameter: Dijkstra's algorithm on the
        members.

        The order of an object's members does not change the length. So the lowest needed bit is
        always set next; other orders are not tried.
        """
        if start in self._members:
            return self._members[start]
        queue = [(measure(NO_TEXT), 0, NO_TEXT, start)]
        seen = set[Member]()
        ended: Completion | None = None
        pushed = 0
        while queue and len(seen) < MAX_TRIED:
            cost, _, so_far, member = heappop(queue)
            if ended is not None and cost >= measure(ended):
                break
            if member in seen:
                continue
            seen.add(member)
            for way in self._choose(member):
                whole = join(so_far, way.ending)
                if way.after is None:
                    ended = pick_shorter(ended, whole)
                else:
                    pushed += 1
                    heappush(queue, (measure(whole), pushed, whole, way.after))
        if len(self._members) >= MAX_KEPT:
            self._members.clear()
        self._members[start] = ended
        return ended

    def _choose(self, member: Member) -> list[Way]:
        """Returns the paths through a rule that may be part of a shortest text."""
        rule = self._rules[member.name]
        missing = rule.needed & ~member.bits
        if missing:
            ways = list(self._find_ways(rule.body, member.bits, missing & -missing))
            # Anything before it would only make the text longer.
            return _list_adding(ways, member) or ways
        ways = list(self._find_ways(rule.body, member.bits))
        if member.bits.bit_count() >= rule.least:
            return ways
        # Many members must follow, in any order; only the shortest one is tried first.
        adding = _list_adding(ways, member)
        others = [way for way in ways if way not in adding]
        return others + sorted(adding, key=lambda way: measure(way.ending))[:1]

    def _find_ways(self, expression: ir.Expression, bits: int, wanted: int = 0) -> Iterator[Way]:
        """Yields the shortest path through (a part of) the body of a rule with a parameter to each
        member at its end. If it sets a bit, it must be the wanted one; 0: any."""
        match expression:
            case ir.Sequence(parts) if parts:
                if not _may_set(parts[-1], wanted):
                    return
                head = self._text_of_all(parts[:-1], bits)
                if head is not None:
                    for way in self._find_ways(parts[-1], bits, wanted):
                        yield Way(join(head, way.ending), way.after)
            case ir.Alternatives(options) as choice:
                if wanted:
                    options = self._options.list_setters(choice, wanted)
                elif len(options) >= MANY and not self._is_solving:
                    yield from islice(self._find_likely_ways(choice, bits), MAX_LIKELY)
                    return
                for option in options:
                    yield from self._find_ways(option, bits, wanted)
            case ir.Guarded(body, condition):
                if condition.holds(bits):
                    yield from self._find_ways(body, bits, wanted)
            case ir.RuleReference(name, argument) if argument is not None:
                if _may_set(expression, wanted):
                    yield Way(NO_TEXT, Member(name, apply(argument, bits)))
            case _:
                ending = self._text(expression, bits)
                if ending is not None:
                    yield Way(ending, None)

    def _find_likely_ways(self, choice: ir.Alternatives, bits: int) -> Iterator[Way]:
        """Yields the paths through the options of a large choice with the smallest lower bounds."""
        for option in self._options.sort(choice, lambda part: self._text(part, 0)):
            yield from self._find_ways(option, bits)


def _find_references(expression: ir.Expression, rules: Mapping[str, Rule]) -> Iterator[str]:
    """Yields the rules without a parameter that an expression refers to, also through a family."""
    stack = [expression]
    families = set[str]()
    while stack:
        match stack.pop():
            case ir.Sequence(parts) | ir.Alternatives(parts):
                stack += parts
            case ir.Repeat(body) | ir.Guarded(body) | ir.Costly(body):
                stack.append(body)
            case ir.RuleReference(name, None) if not rules[name].is_terminal:
                yield name
            case ir.RuleReference(name, _) if not rules[name].is_terminal:
                if name not in families:
                    families.add(name)
                    stack.append(rules[name].body)
            case _:
                pass


class _OptionIndex:
    """The options of large choices, in the orders in which they are looked for."""

    def __init__(self) -> None:
        # By the `id` of a choice, which rules keep alive.
        self._setters: dict[int, dict[int | None, list[ir.Expression]]] = {}
        self._sorted: dict[int, list[ir.Expression]] = {}

    def sort(
        self, choice: ir.Alternatives, find: Callable[[ir.Expression], Completion | None]
    ) -> list[ir.Expression]:
        """Returns the options, those with the smallest lower bound of their texts first."""
        options = self._sorted.get(id(choice))
        if options is None:
            options = sorted(choice.options, key=lambda option: _measure_least(option, find))
            self._sorted[id(choice)] = options
        return options

    def list_setters(self, choice: ir.Alternatives, wanted: int) -> list[ir.Expression]:
        """Returns the options that may set this bit."""
        setters = self._setters.get(id(choice))
        if setters is None:
            setters = self._setters[id(choice)] = dict[int | None, list[ir.Expression]]()
            for option in choice.options:
                setters.setdefault(_find_bit(option), []).append(option)
        return [*setters.get(wanted, ()), *setters.get(None, ())]


def _measure_least(
    option: ir.Expression, find: Callable[[ir.Expression], Completion | None]
) -> tuple[int, int]:
    match option:
        case ir.Guarded(body):
            return _measure_least(body, find)
        case ir.Sequence(parts):
            costly, size = 0, 0
            for part in parts:
                if isinstance(part, ir.RuleReference) and part.argument is not None:
                    break
                least = _measure_least(part, find)
                costly, size = costly + least[0], size + least[1]
            return costly, size
        case ir.Literal() | ir.RuleReference(_, None):
            ending = find(option)
            return NEVER if ending is None else measure(ending)
        case _:
            return 0, 0


def _find_bit(option: ir.Expression) -> int | None:
    """Returns the bit that an option sets at its end; None: not known."""
    match option:
        case ir.Guarded(body):
            return _find_bit(body)
        case ir.Sequence(parts) if parts:
            return _find_bit(parts[-1])
        case ir.RuleReference(_, ir.SetBit(bit)):
            return 1 << bit
        case _:
            return None


def _list_adding(ways: list[Way], member: Member) -> list[Way]:
    return [way for way in ways if way.after and way.after.bits != member.bits]


def _may_set(expression: ir.Expression, wanted: int) -> bool:
    """Returns False if the expression certainly sets another bit than the wanted one."""
    match expression:
        case ir.RuleReference(_, ir.SetBit(bit)):
            return not wanted or 1 << bit == wanted
        case _:
            return True


def apply(argument: ir.Argument, bits: int) -> int:
    """Returns the parameter that a rule with the parameter `bits` passes to another rule."""
    match argument:
        case ir.Keep():
            return bits
        case ir.SetBit(bit):
            return bits | 1 << bit
        case _:
            return 0
