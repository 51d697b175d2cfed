"""A run: the model calls functions and reads their results, until it answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from constrained.agent.actions import (
    Actions,
    Approve,
    Blocking,
    Concurrent,
    Execution,
    Verdict,
    complete,
)
from constrained.agent.finished_run import Run
from constrained.agent.judge import RunLimits
from constrained.agent.loop import AgentLoop
from constrained.agent.run_tools import RunTools
from constrained.agent.search.tool_search import ToolSearch, read_search
from constrained.decode.filters.events import Exhausted, StreamEvent
from constrained.errors import RequestError
from constrained.model.confidence_policy import (
    ConfidencePolicy,
    Unsure,
    read_confidence_policy,
    take_back,
)
from constrained.model.loaded_model import LoadedModel
from constrained.prompt.tools.execution import CallResult, decline
from constrained.prompt.tools.shapes import read_choice
from grammars.turn import CallRead, ToolCall

_Decide: TypeAlias = Callable[[int, ToolCall], Awaitable[Verdict]]
OnResult: TypeAlias = Callable[[int, CallResult], None]
"""Takes the number of a call in its turn, from 0, and its result, as soon as that is known."""


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run, besides its messages, tools and the options of its turns; see
    `RunOptions`."""

    limits: RunLimits = field(default_factory=RunLimits)
    approve: Approve | None = None
    policy: ConfidencePolicy = field(default_factory=ConfidencePolicy)
    search: ToolSearch | None = None
    on_result: OnResult | None = None

    def make_loop(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: RunTools,
        options: Mapping[str, Any],
    ) -> AgentLoop:
        """Makes the loop of a run with these settings; `options` are those of its turns."""
        return AgentLoop(messages, tools, options, limits=self.limits, search=self.search)


def split_options(options: Mapping[str, Any]) -> tuple[RunSettings, dict[str, Any]]:
    """Splits the options of a run into its settings, and the options of its turns."""
    rest = dict(options)
    limits: dict[str, Any] = {}
    for name in RunLimits.__annotations__:
        if name in rest:
            limits[name] = rest.pop(name)
    approve: Approve | None = rest.pop("approve", None)
    if approve is not None and not callable(approve):
        hint = "Give a function of a call; without one, all calls are executed"
        raise RequestError(f"approve is {approve!r}", where="/approve", hint=hint)
    min_confidence = rest.pop("min_confidence", None)
    unsure = rest.pop("unsure", Unsure.APPROVE)
    settings = RunSettings(
        limits=RunLimits(**limits),
        approve=approve,
        policy=read_confidence_policy(min_confidence, unsure, has_approve=approve is not None),
        search=read_search(rest.pop("search_tools", None)),
    )
    if min_confidence is not None:
        rest["trace"] = True
    if "tool_choice" in rest:
        rest["tool_choice"] = read_choice(rest["tool_choice"])
    return settings, rest


def run(
    model: LoadedModel,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: RunTools,
    **options: Any,
) -> Run:
    """Runs the agent loop; `Model.run` explains it. Options that are not in `RunOptions` are passed
    to `model.call`."""
    settings, turn_options = split_options(options)
    actions = Blocking(model)
    try:
        loop = settings.make_loop(messages, tools, turn_options)
        return complete(drive(loop, actions, settings))
    finally:
        actions.close()


async def arun(
    model: LoadedModel,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: RunTools,
    **options: Any,
) -> Run:
    """Like `run`, for asyncio; the calls of one turn run concurrently, but `approve`, which may be
    async, is called for one after the other."""
    settings, turn_options = split_options(options)
    loop = settings.make_loop(messages, tools, turn_options)
    return await drive(loop, Concurrent(model), settings)


async def drive(loop: AgentLoop, actions: Actions, settings: RunSettings) -> Run:
    """Executes what the loop decides, until the run is over."""
    while loop.reason is None:
        turn = _Turn(loop, actions, settings)
        try:
            await turn.generate()
            await turn.execute()
        finally:
            turn.early.cancel()
    return loop.finish()


class _EarlyCalls:
    """The read-only calls of one turn that begin while it is still being generated.

    A call begins as soon as it is complete, checked and within the limits, if its tool and those
    of all calls before it in the turn are read-only. After a call that changes something, a call
    has to wait for the change. If the turn does not end with its calls, the results are dropped.

    Attributes:
        executions: the calls that have begun, by their number in the turn.
    """

    def __init__(self, loop: AgentLoop, actions: Actions, decide: _Decide):
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
        if self._loop.judge.judge(self._calls)[-1] is not None:
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


class _Turn:
    """One turn of a run."""

    def __init__(self, loop: AgentLoop, actions: Actions, settings: RunSettings):
        self._loop = loop
        self._actions = actions
        self._settings = settings
        self._verdicts: dict[int, Verdict] = {}
        self.early = _EarlyCalls(loop, actions, self._decide)

    async def generate(self) -> None:
        """Generates the turn."""
        loop, policy = self._loop, self._settings.policy
        turn = loop.prepare()
        # The confidence of calls is known only at the end of the turn: no call may begin before.
        waits = policy.min_confidence is not None
        has_early = any(getattr(tool, "read_only", False) for tool in loop.toolset.available)
        note = self.early.note if has_early and not waits else None
        reply = await self._actions.generate(turn, note)
        if unsure := policy.find_unsure(reply):
            instead = replace(turn, options=policy.change_options(turn.options))
            reply = take_back(unsure, reply, await self._actions.generate(instead, None))
        loop.take(reply)

    async def execute(self) -> None:
        """Executes the open calls of the turn."""
        calls = self._loop.open
        for number, answer in self._loop.refused:
            self._report(number, answer)
        for number, call in calls:
            if number not in self._verdicts:
                await self._decide(number, call)
        works = [self._execute(number, call) for number, call in calls]
        self._loop.answer(await self._actions.gather(works))

    async def _decide(self, number: int, call: ToolCall) -> Verdict:
        """Returns the verdict about a call; asks for it only once."""
        verdict: Verdict = True
        if self._settings.approve is not None and not self._settings.policy.is_sure(call):
            verdict = await self._actions.ask(self._settings.approve, call)
        self._verdicts[number] = verdict
        return verdict

    async def _execute(self, number: int, call: ToolCall) -> CallResult:
        verdict = self._verdicts[number]
        if verdict is not True:
            result = decline(call, verdict)
        elif (execution := self.early.executions.get(number)) is not None:
            result = replace(await self._actions.finish(execution), call=call)
        else:
            result = await self._actions.execute(call, self._loop.toolset.available)
        self._report(number, result)
        return result

    def _report(self, number: int, result: CallResult) -> None:
        if self._settings.on_result is not None:
            self._settings.on_result(number, result)
