"""A run: the model calls functions and reads their results, until it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from constrained.agent.actions import (
    Actions,
    Approve,
    Blocking,
    ChatModel,
    Concurrent,
    Verdict,
    complete,
)
from constrained.agent.early_calls import EarlyCalls
from constrained.agent.finished_run import Run
from constrained.agent.judge import RunLimits
from constrained.agent.loop import AgentLoop, OpenCall
from constrained.agent.run_tools import RunTools
from constrained.agent.search.tool_search import ToolSearch, read_search
from constrained.errors import RequestError
from constrained.model.confidence_policy import (
    ConfidencePolicy,
    Unsure,
    read_confidence_policy,
    take_back,
)
from constrained.model.reply import Reply
from constrained.prompt.tools.call_result import CallResult, decline
from constrained.prompt.tools.shapes import read_choice
from grammars.turn import ToolCall

OnResult: TypeAlias = Callable[[int, CallResult], None]
"""Takes the number of a call in its turn, from 0, and its result, as soon as that is known."""


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run, besides its messages, tools and the options of its turns.

    Args:
        limits: of the run.
        approve: see `RunOptions`.
        policy: how calls are treated that the model is not sure of.
        search: see `search_tools` of `RunOptions`.
        on_result: see `OnResult`; None: is not called.
    """

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
    model: ChatModel,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: RunTools,
    **options: Any,
) -> Run:
    """Runs the agent loop; `Model.run` explains it.

    Args:
        model: the model, or anything with its `call`.
        messages: as for `Model.run`.
        tools: as for `Model.run`.
        options: see `RunOptions`; all others are passed to `model.call`.

    Raises:
        Error: an error of the model; `RequestError` for limits below 1.
    """
    settings, turn_options = split_options(options)
    actions = Blocking(model)
    try:
        loop = settings.make_loop(messages, tools, turn_options)
        return complete(drive(loop, actions, settings))
    finally:
        actions.close()


async def arun(
    model: ChatModel,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: RunTools,
    **options: Any,
) -> Run:
    """Like `run`, for asyncio; the calls of one turn run concurrently.

    `approve` may be async. It is called for one call after the other.
    """
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


@dataclass
class _TurnInstead:
    """The turn that is generated in place of a discarded one; a `NextTurn`."""

    messages: Sequence[Mapping[str, Any]]
    tools: list[Any]
    options: dict[str, Any]


class _Turn:
    """One turn of a run.

    Args:
        loop: decides which calls are executed.
        actions: generate turns and execute calls.
        settings: of the run.
    """

    def __init__(self, loop: AgentLoop, actions: Actions, settings: RunSettings):
        self._loop = loop
        self._actions = actions
        self._settings = settings
        self._verdicts: dict[int, Verdict] = {}
        self.early = EarlyCalls(loop, actions, self._decide)

    async def generate(self) -> None:
        """Generates the turn."""
        self._loop.prepare()
        self._loop.take(await self._generate())

    async def _generate(self) -> Reply:
        loop, policy = self._loop, self._settings.policy
        # The confidence of calls is known only at the end of the turn: no call may begin before.
        waits = policy.min_confidence is not None
        has_early = any(getattr(tool, "read_only", False) for tool in loop.toolset.available)
        note = self.early.note if has_early and not waits else None
        reply = await self._actions.generate(loop, note)
        unsure = policy.find_unsure(reply)
        if not unsure:
            return reply
        options = policy.change_options(loop.options)
        turn = _TurnInstead(loop.messages, loop.tools, options)
        return take_back(unsure, reply, await self._actions.generate(turn, None))

    async def execute(self) -> None:
        """Executes the open calls of the turn."""
        calls = self._loop.open
        for number, answer in self._loop.refused:
            self._report(number, answer)
        for open_call in calls:
            if open_call.number not in self._verdicts:
                await self._decide(open_call.number, open_call.call)
        works = [self._execute(open_call) for open_call in calls]
        self._loop.answer(await self._actions.gather(works))

    async def _decide(self, number: int, call: ToolCall) -> Verdict:
        """Returns the verdict about a call; asks for it only once."""
        verdict: Verdict = True
        if self._settings.approve is not None and not self._settings.policy.is_sure(call):
            verdict = await self._actions.ask(self._settings.approve, call)
        self._verdicts[number] = verdict
        return verdict

    async def _execute(self, open_call: OpenCall) -> CallResult:
        result = await self._perform(open_call)
        self._report(open_call.number, result)
        return result

    def _report(self, number: int, result: CallResult) -> None:
        if self._settings.on_result is not None:
            self._settings.on_result(number, result)

    async def _perform(self, open_call: OpenCall) -> CallResult:
        verdict = self._verdicts[open_call.number]
        if verdict is not True:
            return decline(open_call.call, verdict)
        if (execution := self.early.executions.get(open_call.number)) is not None:
            result = await self._actions.finish(execution)
            return replace(result, call=open_call.call)
        return await self._actions.execute(open_call.call, self._loop.toolset.available)
