"""The members of an object and the items of a list, between the brackets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grammars.ir.grammar import GrammarBuilder
from grammars.ir.nodes import (
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
from grammars.schema.bits import ALWAYS, KEEP, NEVER, Condition, SetBit, both, count, negate
from grammars.schema.counted import Counted, Distinct, Items, State
from grammars.schema.members import Members, Unordered
from grammars.schema.nodes import Object


@dataclass(frozen=True)
class MembersBody:
    """All members (EMPTY if there can be none), and whether there have to be any."""

    body: Expression
    required: bool


def write_members(
    node: Object,
    members: Members,
    pairs: Sequence[Expression],
    extra: Expression | None,
    comma: Expression,
    builder: GrammarBuilder,
) -> MembersBody:
    """The members of an object.

    Args:
        node: the object.
        members: in which order they come.
        pairs: a rule for each declared key and its value.
        extra: one for an undeclared key and its value; None if there is none.
        comma: what stands between two members.
        builder: the grammar under way.
    """
    if isinstance(members, Unordered):
        return _write_unordered(members, pairs, extra, comma, builder)
    if members.mixed:
        return _write_mixed(node, pairs, extra, comma, builder)
    return _write_ordered(node, pairs, extra, comma, builder)


def _write_unordered(
    members: Unordered,
    pairs: Sequence[Expression],
    extra: Expression | None,
    comma: Expression,
    builder: GrammarBuilder,
) -> MembersBody:
    """Right-recursive, with what is written in the parameter. Undeclared members that need not be
    counted are a list of their own in front of each declared one: there may be many."""
    if not members.may_go_on(members.start):
        return MembersBody(EMPTY, required=False)
    required = not members.may_end(members.start)
    following: list[tuple[Expression, Condition]] = []
    for i, pair in enumerate(pairs):
        behind = RuleReference("more", members.behind(i))
        following.append((sequence(pair, behind), members.can_add[i]))
    run = EMPTY  # of undeclared members
    if extra is not None:
        for condition, bit in members.ways_to_count_extra:
            following.append((sequence(extra, RuleReference("more", bit)), condition))
        if members.counted != NEVER:
            run = builder.define(many(sequence(comma, extra)), "extras")
        if members.counted == ALWAYS and members.can_add_declared == NEVER:
            return MembersBody(sequence(extra, run), required)
    another = sequence(comma, RuleReference("next", KEEP))
    uncounted = negate(members.counted)
    more = [
        (run, both([members.counted, members.can_end])),
        (EMPTY, both([uncounted, members.can_end])),
        (sequence(run, another), both([members.counted, members.can_add_declared])),
        (another, both([uncounted, members.can_go_on])),
    ]
    names = builder.family(
        {"next": guarded(following), "more": guarded(more)},
        needed=members.required_bits,
        least=members.least,
    )
    starts: list[Expression] = [RuleReference(names["next"], ZERO)]
    if extra is not None and members.counted.holds(members.start):
        starts.append(sequence(extra, RuleReference(names["more"], ZERO)))
    return MembersBody(builder.enter(*starts), required)


def _write_ordered(
    node: Object,
    pairs: Sequence[Expression],
    extra: Expression | None,
    comma: Expression,
    builder: GrammarBuilder,
) -> MembersBody:
    """Declared members in schema order, then undeclared ones."""
    rest = EMPTY
    starts: list[Expression] = []
    if extra is not None:
        rest = many(sequence(comma, extra))
        starts = [sequence(extra, rest)]
    required = False
    for declared, pair in reversed(list(zip(node.properties, pairs, strict=True))):
        if declared.required:
            starts, required = [], True
        starts.insert(0, sequence(pair, rest))
        member = sequence(comma, pair)
        if not declared.required:
            member = optional(member)
        rest = builder.define(sequence(member, rest), "rest")
    return MembersBody(choice(starts) if starts else EMPTY, required)


def _write_mixed(
    node: Object,
    pairs: Sequence[Expression],
    extra: Expression | None,
    comma: Expression,
    builder: GrammarBuilder,
) -> MembersBody:
    """The same with undeclared members anywhere: where keys are sorted they stand in between."""
    more = rest = EMPTY
    if extra is not None:
        more = many(sequence(comma, extra))
        rest = builder.define(more, "rest")
    starts: list[Expression] = []
    required = False
    for declared, pair in reversed(list(zip(node.properties, pairs, strict=True))):
        first = sequence(pair, rest)
        if declared.required:
            starts, required = [first], True
        else:
            starts = [first, *starts]
        following = choice([sequence(comma, start) for start in starts])
        if not required:
            following = optional(following)
        rest = builder.define(sequence(more, following), "rest")
    if extra is not None:
        starts.append(sequence(extra, rest))
    return MembersBody(choice(starts) if starts else EMPTY, required)


def write_items(
    items: Items, values: Mapping[int, Expression], comma: Expression, builder: GrammarBuilder
) -> Expression:
    """The items of a list that depend on those in front of them: one and more; EMPTY if there can
    be none.

    Args:
        items: the list.
        values: rules of its items, by the ids of their nodes.
        comma: what stands between two items.
        builder: the grammar under way.
    """
    if isinstance(items, Distinct):
        return _write_distinct(items, values, comma, builder)
    return _write_counted(items, values, comma, builder)


def _write_distinct(
    items: Distinct, values: Mapping[int, Expression], comma: Expression, builder: GrammarBuilder
) -> Expression:
    """Right-recursive, with what is written in the parameter."""
    if not items.most:
        return EMPTY
    size = len(items.nodes)
    following: list[tuple[Expression, Condition]] = []
    for i, node in enumerate(items.nodes):
        is_missing = count(i, i + 1, 0, 0)
        following.append((sequence(values[id(node)], RuleReference("more", SetBit(i))), is_missing))
    more = [
        (EMPTY, count(0, size, items.least)),
        (sequence(comma, RuleReference("next", KEEP)), count(0, size, 0, items.most - 1)),
    ]
    bodies = {"next": guarded(following), "more": guarded(more)}
    names = builder.family(bodies, least=items.least)
    return builder.enter(RuleReference(names["next"], ZERO))


def _write_counted(
    counted: Counted, values: Mapping[int, Expression], comma: Expression, builder: GrammarBuilder
) -> Expression:
    tails: dict[State, Expression] = {}

    def follow(state: State) -> Expression:
        """The rule for what stands behind an item."""
        if state not in tails:
            name = builder.reserve("items")
            tails[state] = RuleReference(name)
            builder.fill(name, write(state))
        return tails[state]

    def write(state: State) -> Expression:
        loops: list[Expression] = []  # items behind which nothing is different
        others: list[Expression] = []
        for step in counted.steps(state):
            if step.behind == state:
                loops.append(values[id(step.node)])
            else:
                others.append(sequence(comma, values[id(step.node)], follow(step.behind)))
        run = many(sequence(comma, choice(loops))) if loops else EMPTY
        more = choice(others) if others else EMPTY
        if counted.may_end(state):
            more = optional(more)
        return sequence(run, more)

    starts: list[Expression] = []
    for step in counted.steps(counted.start):
        starts.append(sequence(values[id(step.node)], follow(step.behind)))
    return choice(starts) if starts else EMPTY
