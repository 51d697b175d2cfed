"""Grammar rules for the members of an object and the items of a list, between the brackets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grammars.schema.bits import ALWAYS, KEEP, NEVER, Condition, SetBit, conjoin, count, negate
from grammars.schema.counted import Counted, Distinct, Items, State
from grammars.schema.members import Members, Unordered
from grammars.schema.nodes import Property
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.ir.nodes import (
    EMPTY,
    ZERO,
    Expression,
    RuleReference,
    choice,
    guarded,
    many,
    optional,
    sequence,
)


@dataclass(frozen=True)
class MembersBody:
    """All members of an object, EMPTY if there can be none, and whether one is required."""

    body: Expression
    required: bool


@dataclass(frozen=True)
class MemberRules:
    """Adds the rules of an object's members, from rules for each declared key with its value, and
    for an undeclared one, if there may be any."""

    pairs: Sequence[Expression]
    extra: Expression | None
    comma: Expression
    builder: GrammarBuilder

    def write(self, properties: Sequence[Property], members: Members) -> MembersBody:
        if isinstance(members, Unordered):
            return self._write_unordered(members)
        if members.mixed:
            return self._write_mixed(properties)
        return self._write_ordered(properties)

    def _write_unordered(self, members: Unordered) -> MembersBody:
        """Members in any order: right-recursive rules whose parameter holds which members are
        written.

        Undeclared members that need no counting are a list of their own before each declared
        member, since there may be many.
        """
        if not members.may_continue(members.start):
            return MembersBody(EMPTY, required=False)
        required = not members.may_end(members.start)
        following: list[tuple[Expression, Condition]] = []
        for i, pair in enumerate(self.pairs):
            after = RuleReference("more", members.after(i))
            following.append((sequence(pair, after), members.can_add[i]))
        run = EMPTY  # of undeclared members
        if self.extra is not None:
            for condition, bit in members.ways_to_count_extra:
                following.append((sequence(self.extra, RuleReference("more", bit)), condition))
            if members.counted != NEVER:
                run = self.builder.define(many(sequence(self.comma, self.extra)), "extras")
            if members.counted == ALWAYS and members.can_add_declared == NEVER:
                return MembersBody(sequence(self.extra, run), required)
        another = sequence(self.comma, RuleReference("next", KEEP))
        uncounted = negate(members.counted)
        more = [
            (run, conjoin([members.counted, members.can_end])),
            (EMPTY, conjoin([uncounted, members.can_end])),
            (sequence(run, another), conjoin([members.counted, members.can_add_declared])),
            (another, conjoin([uncounted, members.can_continue])),
        ]
        names = self.builder.family(
            {"next": guarded(following), "more": guarded(more)},
            needed=members.required_bits,
            least=members.least,
        )
        starts: list[Expression] = [RuleReference(names["next"], ZERO)]
        if self.extra is not None and members.counted.holds(members.start):
            starts.append(sequence(self.extra, RuleReference(names["more"], ZERO)))
        return MembersBody(self.builder.enter(*starts), required)

    def _write_ordered(self, properties: Sequence[Property]) -> MembersBody:
        """Writes the declared members in schema order, then undeclared members."""
        rest = EMPTY
        starts: list[Expression] = []
        if self.extra is not None:
            rest = many(sequence(self.comma, self.extra))
            starts = [sequence(self.extra, rest)]
        required = False
        for declared, pair in reversed(list(zip(properties, self.pairs, strict=True))):
            if declared.required:
                starts, required = [], True
            starts.insert(0, sequence(pair, rest))
            member = sequence(self.comma, pair)
            if not declared.required:
                member = optional(member)
            rest = self.builder.define(sequence(member, rest), "rest")
        return MembersBody(choice(starts) if starts else EMPTY, required)

    def _write_mixed(self, properties: Sequence[Property]) -> MembersBody:
        """Writes the declared members in schema order, undeclared ones anywhere: for sorted
        keys."""
        more = rest = EMPTY
        if self.extra is not None:
            more = many(sequence(self.comma, self.extra))
            rest = self.builder.define(more, "rest")
        starts: list[Expression] = []
        required = False
        for declared, pair in reversed(list(zip(properties, self.pairs, strict=True))):
            first = sequence(pair, rest)
            if declared.required:
                starts, required = [first], True
            else:
                starts = [first, *starts]
            following = choice([sequence(self.comma, start) for start in starts])
            if not required:
                following = optional(following)
            rest = self.builder.define(sequence(more, following), "rest")
        if self.extra is not None:
            starts.append(sequence(self.extra, rest))
        return MembersBody(choice(starts) if starts else EMPTY, required)


def write_items(
    items: Items, values: Mapping[int, Expression], *, comma: Expression, builder: GrammarBuilder
) -> Expression:
    """Writes the items of a list in which allowed items depend on earlier items, from rules for
    them by the `id` of their nodes. EMPTY if there can be none."""
    if isinstance(items, Distinct):
        return _write_distinct(items, values, comma=comma, builder=builder)
    return _write_counted(items, values, comma=comma, builder=builder)


def _write_distinct(
    items: Distinct, values: Mapping[int, Expression], *, comma: Expression, builder: GrammarBuilder
) -> Expression:
    """Right-recursive rules whose parameter holds which items are written."""
    if not items.most:
        return EMPTY
    size = len(items.nodes)
    following: list[tuple[Expression, Condition]] = []
    for i, node in enumerate(items.nodes):
        is_missing = count(i, i + 1, low=0, high=0)
        following.append((sequence(values[id(node)], RuleReference("more", SetBit(i))), is_missing))
    more = [
        (EMPTY, count(0, size, items.least)),
        (sequence(comma, RuleReference("next", KEEP)), count(0, size, low=0, high=items.most - 1)),
    ]
    bodies = {"next": guarded(following), "more": guarded(more)}
    names = builder.family(bodies, least=items.least)
    return builder.enter(RuleReference(names["next"], ZERO))


def _write_counted(
    counted: Counted,
    values: Mapping[int, Expression],
    *,
    comma: Expression,
    builder: GrammarBuilder,
) -> Expression:
    tails: dict[State, Expression] = {}

    def follow(state: State) -> Expression:
        """Returns the rule for everything after an item."""
        if state not in tails:
            name = builder.reserve("items")
            tails[state] = RuleReference(name)
            builder.fill(name, write(state))
        return tails[state]

    def write(state: State) -> Expression:
        loops: list[Expression] = []  # items that do not change the state
        others: list[Expression] = []
        for step in counted.steps(state):
            if step.after == state:
                loops.append(values[id(step.node)])
            else:
                others.append(sequence(comma, values[id(step.node)], follow(step.after)))
        run = many(sequence(comma, choice(loops))) if loops else EMPTY
        more = choice(others) if others else EMPTY
        if counted.may_end(state):
            more = optional(more)
        return sequence(run, more)

    starts: list[Expression] = []
    for step in counted.steps(counted.start):
        starts.append(sequence(values[id(step.node)], follow(step.after)))
    return choice(starts) if starts else EMPTY
