"""The members of a JSON object in Lark, between its brackets."""

from collections.abc import Sequence
from dataclasses import dataclass

from grammars.build.rules import RuleBook, choose, mark
from grammars.schema.bits import ALWAYS, NEVER, both, negate
from grammars.schema.members import Members, Unordered
from grammars.schema.nodes import Object


@dataclass(frozen=True)
class Start:
    """An expression for all members ("" if there can be none), and whether there have to be any."""

    body: str
    required: bool


def write_members(
    node: Object, members: Members, pairs: Sequence[str], extra: str, comma: str, rules: RuleBook
) -> Start:
    """The members of an object.

    Args:
        node: the object.
        members: in which order they come.
        pairs: a rule for each declared key and its value.
        extra: one for an undeclared key and its value; "" if there is none.
        comma: what stands between two members.
        rules: the grammar under way.
    """
    if isinstance(members, Unordered):
        return _write_unordered(members, pairs, extra, comma, rules)
    write = _write_mixed if members.mixed else _write_ordered
    return write(node, pairs, extra, comma, rules)


def _write_unordered(
    members: Unordered, pairs: Sequence[str], extra: str, comma: str, rules: RuleBook
) -> Start:
    """Right-recursive, with what is written in the parameter. Undeclared members that need not be
    counted are a list of their own in front of each declared one: there may be many."""
    if not members.may_go_on(members.start):
        return Start("", required=False)
    options = [
        (f"{pair} {mark('more')}::{members.behind(i)}", members.can_add[i])
        for i, pair in enumerate(pairs)
    ]
    for way, behind in members.ways_to_count_extra:
        options.append((f"{extra} {mark('more')}::{behind}", way))
    run = rules.define(f"({comma} {extra})*", "extras") if members.counted != NEVER else ""
    if members.counted == ALWAYS and members.can_add_declared == NEVER:
        return Start(f"{extra} {run}", not members.may_end(members.start))
    yet = negate(members.counted)
    more = [
        (run, both([members.counted, members.can_end])),
        ('""', both([yet, members.can_end])),
        (f"{run} {comma} {mark('next')}::_", both([members.counted, members.can_add_declared])),
        (f"{comma} {mark('next')}::_", both([yet, members.can_go_on])),
    ]
    names = rules.knot({"next": choose(options), "more": choose(more)})
    starts = [f"{names['next']}::0"]
    starts += [f"{extra} {names['more']}::0"] if members.counted.holds(members.start) else []
    return Start(rules.enter(*starts), not members.may_end(members.start))


def _write_ordered(
    node: Object, pairs: Sequence[str], extra: str, comma: str, rules: RuleBook
) -> Start:
    """Declared members in schema order, then undeclared ones."""
    rest = f"({comma} {extra})*" if extra else ""
    starts = [f"{extra} {rest}"] if extra else []
    required = False
    for declared, pair in reversed(list(zip(node.properties, pairs, strict=True))):
        if declared.required:
            starts, required = [], True
        starts.insert(0, f"{pair} {rest}")
        body = f"{comma} {pair}" if declared.required else f"({comma} {pair})?"
        rest = rules.define(f"{body} {rest}", "rest")
    return Start(" | ".join(starts), required)


def _write_mixed(
    node: Object, pairs: Sequence[str], extra: str, comma: str, rules: RuleBook
) -> Start:
    """The same with undeclared members anywhere: where keys are sorted they stand in between."""
    more = f"({comma} {extra})*" if extra else ""
    rest = rules.define(more, "rest") if more else ""
    reachable = list[str]()
    required = False
    for declared, pair in reversed(list(zip(node.properties, pairs, strict=True))):
        first = f"{pair} {rest}"
        reachable = [first] if declared.required else [first, *reachable]
        required = required or declared.required
        behind = " | ".join(f"{comma} {start}" for start in reachable)
        rest = rules.define(f"{more} ({behind}){'' if required else '?'}", "rest")
    if extra:
        reachable.append(f"{extra} {rest}")
    return Start(" | ".join(reachable), required)
