"""The items of a list some of which are counted, in Lark."""

from collections.abc import Mapping

from grammars.counted import Counted, State
from grammars.lark_rules import RuleBook


def write_items(counted: Counted, values: Mapping[int, str], comma: str, rules: RuleBook) -> str:
    """One item and more; "" if there can be none.

    Args:
        counted: the list.
        values: rules of its items, by the ids of their nodes.
        comma: what stands between two items.
        rules: the grammar under way.
    """
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
