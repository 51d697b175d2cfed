"""The items of a list that depend on those in front of them, in Lark."""

from collections.abc import Mapping

from grammars.build.rules import RuleBook, choose, mark
from grammars.schema.bits import count
from grammars.schema.counted import Counted, Distinct, Items, State


def write_items(items: Items, values: Mapping[int, str], comma: str, rules: RuleBook) -> str:
    """One item and more; "" if there can be none.

    Args:
        items: the list.
        values: rules of its items, by the ids of their nodes.
        comma: what stands between two items.
        rules: the grammar under way.
    """
    if isinstance(items, Distinct):
        return _write_distinct(items, values, comma, rules)
    return _write_counted(items, values, comma, rules)


def _write_distinct(items: Distinct, values: Mapping[int, str], comma: str, rules: RuleBook) -> str:
    """Right-recursive, with what is written in the parameter."""
    if not items.most:
        return ""
    size = len(items.nodes)
    options = [
        (f"{values[id(node)]} {mark('more')}::set_bit({i})", count(i, i + 1, 0, 0))
        for i, node in enumerate(items.nodes)
    ]
    more = [
        ('""', count(0, size, items.least)),
        (f"{comma} {mark('next')}::_".strip(), count(0, size, 0, items.most - 1)),
    ]
    names = rules.knot({"next": choose(options), "more": choose(more)})
    return rules.enter(f"{names['next']}::0")


def _write_counted(counted: Counted, values: Mapping[int, str], comma: str, rules: RuleBook) -> str:
    tails = dict[State, str]()

    def follow(state: State) -> str:
        """The rule for what stands behind an item."""
        if state not in tails:
            tails[state] = rules.reserve("items")
            rules.fill(tails[state], write(state))
        return tails[state]

    def write(state: State) -> str:
        steps = counted.steps(state)
        loops = [values[id(s.node)] for s in steps if s.behind == state]
        ways = [
            f"{comma} {values[id(s.node)]} {follow(s.behind)}" for s in steps if s.behind != state
        ]
        run = f"({comma} ({' | '.join(dict.fromkeys(loops))}))*" if loops else ""
        more = f"({' | '.join(dict.fromkeys(ways))})" if ways else ""
        return f"{run} {more}{'?' if more and counted.may_end(state) else ''}".strip() or '""'

    steps = counted.steps(counted.start)
    return " | ".join(f"{values[id(s.node)]} {follow(s.behind)}" for s in steps)
