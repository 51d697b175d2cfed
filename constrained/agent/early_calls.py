"""Early calls: read-only calls begin while the turn is still being generated.

A call begins as soon as it is complete, checked and within the limits, if its tool and those of all
calls before it in the turn are read-only. After a call that changes something, a call has to wait
for the change. If the turn does not end with its calls, the results are dropped.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from constrained.agent.actions import Actions, Execution, Verdict
from constrained.agent.loop import AgentLoop
from constrained.decode.filters.events import Exhausted, StreamEvent
from grammars.turn import CallRead, ToolCall

Decide: TypeAlias = Callable[[int, ToolCall], Awaitable[Verdict]]


class EarlyCalls:
    """The calls of one turn that begin early.

    Args:
        loop: decides which calls are executed.
        actions: begin the calls.
        decide: takes the number of a call and the call; returns the verdict about it.

    Attributes:
        executions: the calls that have begun, by their number in the turn.
    """

    def __init__(self, loop: AgentLoop, actions: Actions, decide: Decide):
        self._loop = loop
        self._actions = actions
        self._decide = decide
        self._calls: list[ToolCall] = []
        self._is_over = False
        self.executions: dict[int, Execution] = {}

    async def note(self, event: StreamEvent) -> None:
        """Takes an event of the turn, and begins the call that it completes, if it may."""
        if isinstance(event, Exhausted):  # the calls from here on are made up
            self._is_over = True
        if self._is_over or not isinstance(event, CallRead):
            return
        self._calls.append(event.call)
        if self._loop.judge(self._calls)[-1] is not None:
            return  # it is not executed at all
        tool = self._loop.toolset.find_function(event.call)
        if tool is None or not tool.read_only:
            self._is_over = True
            return
        if await self._decide(event.index, event.call) is True:
            self.executions[event.index] = self._actions.begin(
                event.call, self._loop.toolset.available
            )

    def cancel(self) -> None:
        """Cancels the calls that are still running."""
        for execution in self.executions.values():
            execution.cancel()
