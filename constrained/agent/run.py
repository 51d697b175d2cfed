"""A run: the model calls functions and reads their results, until it answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from constrained.agent.actions import Actions, Approve, Blocking, ChatModel, Concurrent, complete
from constrained.agent.early_calls import EarlyCalls
from constrained.agent.finished_run import Run
from constrained.agent.journal import Approval, CallPlace, Journal, Verdict
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
from constrained.prompt.tools.call_result import CallResult, decline, lose
from constrained.prompt.tools.shapes import read_choice
from grammars.turn import ToolCall

OnInterrupted: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]
OnResult: TypeAlias = Callable[[CallPlace, CallResult], None]
"""Gets to know what became of a call, as soon as that is known."""


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run, besides its messages, tools and the options of its turns.

    Args:
        limits: of the run.
        approve: see `RunOptions`.
        policy: how calls are treated that the model is not sure of.
        on_interrupted: see `RunOptions`.
        search: see `search_tools` of `RunOptions`.
        journal: records the run.
        on_result: see `OnResult`; None: is not called.
    """

    limits: RunLimits = field(default_factory=RunLimits)
    approve: Approve | None = None
    policy: ConfidencePolicy = field(default_factory=ConfidencePolicy)
    on_interrupted: OnInterrupted | None = None
    search: ToolSearch | None = None
    journal: Journal = field(default_factory=Journal)
    on_result: OnResult | None = None

    def make_loop(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: RunTools,
        options: Mapping[str, Any],
    ) -> AgentLoop:
        """Makes the loop of a run with these settings; `options` are those of its turns."""
        return AgentLoop(messages, tools, options, limits=self.limits, search=self.search)


def split_options(
    options: Mapping[str, Any], journal: Journal
) -> tuple[RunSettings, dict[str, Any]]:
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
        on_interrupted=rest.pop("on_interrupted", None),
        search=read_search(rest.pop("search_tools", None)),
        journal=journal,
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
    journal: Journal | None = None,
    **options: Any,
) -> Run:
    """Runs the agent loop; `Model.run` explains it.

    Args:
        model: the model, or anything with its `call`.
        messages: as for `Model.run`.
        tools: as for `Model.run`.
        journal: records the run; recorded actions are not repeated. Default: no record.
        options: see `RunOptions`; all others are passed to `model.call`.

    Raises:
        Error: an error of the model; `RequestError` for limits below 1.
    """
    settings, turn_options = split_options(options, journal or Journal())
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
    journal: Journal | None = None,
    **options: Any,
) -> Run:
    """Like `run`, for asyncio; the calls of one turn run concurrently.

    `approve` may be async. It is called for one call after the other.
    """
    settings, turn_options = split_options(options, journal or Journal())
    loop = settings.make_loop(messages, tools, turn_options)
    return await drive(loop, Concurrent(model), settings)


async def drive(loop: AgentLoop, actions: Actions, settings: RunSettings) -> Run:
    """Executes what the loop decides, until the run is over."""
    journal = settings.journal
    while loop.reason is None:
        turn = _Turn(loop, actions, settings)
        try:
            await turn.generate()
            await turn.execute()
        finally:
            turn.early.cancel()
    finished = loop.finish(journal.id)
    journal.close(finished)
    return finished


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
        self._journal = settings.journal
        self._number = loop.step
        self._verdicts: dict[int, Verdict] = {}
        self.early = EarlyCalls(loop, actions, self._decide)

    async def generate(self) -> None:
        """Generates the turn, unless the journal has it."""
        loop, journal = self._loop, self._journal
        loop.prepare(journal.begin_turn(self._number, loop.elapsed))
        known = journal.find_reply(self._number)
        if known is None:
            if loop.toolset.is_live:
                journal.note_tools(self._number, loop.toolset.shown)
            known = await self._generate(), loop.elapsed
            journal.note_reply(self._number, *known)
        else:
            loop.toolset.remember(journal.find_tools(self._number))
        reply, seconds = known
        loop.take(reply, seconds, self._list_started(reply))

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

    def _list_started(self, reply: Reply) -> list[int]:
        """Returns the numbers of the calls that the journal has."""
        started: list[int] = []
        for number, call in enumerate(reply.calls):
            place = self._find_place(number, call)
            if self._journal.was_started(place) or self._journal.find_result(place) is not None:
                started.append(number)
        return started

    async def execute(self) -> None:
        """Executes the open calls of the turn."""
        calls = self._loop.open
        for number, answer in self._loop.refused:
            self._report(self._find_place(number, answer.call), answer)
        for open_call in calls:
            if open_call.number not in self._verdicts:
                await self._decide(open_call.number, open_call.call)
        if any(isinstance(self._verdicts[one.number], Approval) for one in calls):
            self._loop.wait()
            return
        works = [self._execute(open_call) for open_call in calls]
        self._loop.answer(await self._actions.gather(works))

    def _find_place(self, number: int, call: ToolCall) -> CallPlace:
        return CallPlace(self._number, number, call)

    async def _decide(self, number: int, call: ToolCall) -> Verdict:
        """Returns the verdict about a call; asks for it only once."""
        place = self._find_place(number, call)
        verdict = self._journal.find_verdict(place)
        if verdict is None:
            verdict = True
            if self._settings.approve is not None and not self._settings.policy.is_sure(call):
                verdict = await self._actions.ask(self._settings.approve, call)
                self._journal.note_verdict(place, verdict)
        self._verdicts[number] = verdict
        return verdict

    async def _execute(self, open_call: OpenCall) -> CallResult:
        """Returns the result of a call: from the journal, or by executing it."""
        number, call = open_call.number, open_call.call
        place = self._find_place(number, call)
        result = self._journal.find_result(place)
        if result is None:
            result = await self._perform(open_call, place)
            self._journal.note_result(place, result)
        self._report(place, result)
        return result

    def _report(self, place: CallPlace, result: CallResult) -> None:
        if self._settings.on_result is not None:
            self._settings.on_result(place, result)

    async def _perform(self, open_call: OpenCall, place: CallPlace) -> CallResult:
        verdict = self._verdicts[open_call.number]
        if verdict is not True:
            return decline(open_call.call, verdict)
        if (execution := self.early.executions.get(open_call.number)) is not None:
            result = await self._actions.finish(execution)
            return replace(result, call=open_call.call)
        is_lost = self._journal.was_started(place) and not open_call.tool.read_only
        if is_lost and not await self._may_repeat(place.call):
            return lose(place.call)
        self._journal.begin_call(place)
        return await self._actions.execute(open_call.call, self._loop.toolset.available)

    async def _may_repeat(self, call: ToolCall) -> bool:
        """Asks whether to repeat a call that was being executed when the process ended."""
        ask = self._settings.on_interrupted
        return ask is not None and await self._actions.ask(ask, call) is True
