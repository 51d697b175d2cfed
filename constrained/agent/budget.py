"""The budget of a run: tokens, seconds, calls and cost."""

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from constrained.errors import RequestError


@dataclass(frozen=True)
class Spent:
    """What a run has spent.

    Args:
        tokens: tokens that the model generated in all turns.
        seconds: time since the run began.
        calls: number of executed calls.
        cost: sum of the costs of those calls, in your unit; see `ToolOptions`.
    """

    tokens: int = 0
    seconds: float = 0.0
    calls: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class Budget:
    """Limits of what a run may spend. When one is reached, the model has one last turn without
    calls.

    Tokens and seconds are checked between turns and before calls are executed; a running turn or
    call is not interrupted. A call that would cost more than is left is not executed.

    Args:
        tokens: maximum number of generated tokens. Default: None, no limit.
        seconds: maximum duration. Default: None, no limit.
        calls: maximum number of executed calls. Default: None, no limit.
        cost: maximum cost, in the unit of your tools. Default: None, no limit.

    Raises:
        RequestError: a limit is not a number above 0.
    """

    tokens: int | None = None
    seconds: float | None = None
    calls: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if value is None:
                continue
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not float(value) > 0:
                hint = "Use a number above 0, or leave it out"
                where = f"/budget/{field.name}"
                raise RequestError(f"it is {value!r}", where=where, hint=hint)

    def find_spent(self, spent: Spent) -> str | None:
        """Returns which limit is reached, in words; None if there is something left of each.

        Args:
            spent: what the run has spent.
        """
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and getattr(spent, field.name) >= limit:
                return _describe(field.name, limit)
        return None

    def find_excess(self, spent: Spent, cost: float) -> str | None:
        """Returns which limit does not allow another call, in words; None if it is allowed.

        Args:
            spent: what the run has spent.
            cost: the cost of the call.
        """
        exceeded = self.find_spent(spent)
        if exceeded is None and self.cost is not None and spent.cost + cost > self.cost:
            return (
                f"it costs {cost:g}, and {spent.cost:g} of {_describe('cost', self.cost)} is spent"
            )
        return exceeded and f"{exceeded} is spent"


NO_BUDGET = Budget()


def _describe(name: str, limit: float) -> str:
    if name == "cost":
        return f"the budget of {limit:g}"
    return f"the budget of {limit:,} {name}"


def check_cost(cost: Any, tool: str) -> float:
    """Returns what a call costs; an error if that is no number from 0 on."""
    is_number = isinstance(cost, Real) and not isinstance(cost, bool)
    if not is_number or not 0 <= float(cost) < math.inf:
        hint = "Use a number of 0 or more, or a function of the call that returns one"
        raise RequestError(f"a call of {tool!r} costs {cost!r}", where="/cost", hint=hint)
    return float(cost)
