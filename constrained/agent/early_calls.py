"""Early calls: those that only read begin while the turn is still being written.

A call begins as soon as it is complete, checked and within the limits, if its tool is read-only and
so are all calls in front of it in the turn: behind one that changes something, a call has to see
what that has changed. If the turn ends in another way than by its calls, the results are dropped.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from constrained.agent.actions import Actions, Execution
from constrained.agent.journal import Verdict
from constrained.agent.loop import AgentLoop
from constrained.decode.filters.events import Exhausted, StreamEvent
from grammars.turn import CallRead, ToolCall

Decide: TypeAlias = Callable[[int, ToolCall], Awaitable[Verdict]]


class EarlyCalls:
    """The calls of one turn that begin early.

    Args:
        loop: which calls are executed.
        actions: what begins them.
        decide: the verdict about the call of a number.

    Attributes:
        executions: the calls under way, by their number in the turn.
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
        """Ends the calls that are still under way."""
        for execution in self.executions.values():
            execution.cancel()
