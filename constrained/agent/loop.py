"""The state of a run: which calls are executed, what the model is asked next, when it is over.

It executes nothing itself, so that sync and async runs, and those that are read from a record, are
one and the same.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from constrained.agent.budget import NO_BUDGET, NOTHING, Budget, Spent, check_cost
from constrained.agent.context import Context
from constrained.agent.doubt import explain_doubt
from constrained.agent.outcome import CallResult, Outcome, Reason, Run, refuse
from constrained.agent.repetition import CallHistory, identify_call
from constrained.assistant_prefill import read_message
from constrained.deadline import Clock
from constrained.errors import RequestError
from constrained.isolation.isolated_call import Isolation, check_isolated
from constrained.messages import normalise
from constrained.reply import Reply
from constrained.tools.functions import FunctionTool, as_tool, find_tool, read_isolation
from constrained.tools.offer import read_offer
from constrained.tools.search import ToolSearch
from constrained.tools.shapes import read_policy
from grammars.turn import Choice, ToolCall

RunTools: TypeAlias = Sequence[Any] | Callable[[], Sequence[Any]]
"""The tools of a run, or a function that is asked for them in front of each turn."""


def list_tools(tools: RunTools) -> Sequence[Any]:
    """The tools as they are now."""
    return tools() if callable(tools) else tools


@dataclass(frozen=True)
class RunLimits:
    """The limits of a run; see `RunOptions`.

    Raises:
        RequestError: one is below 1.
    """

    max_steps: int = 8
    max_repeats: int = 2
    max_context: int | None = None
    budget: Budget = NO_BUDGET
    isolate: bool | Isolation = False

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_repeats", "max_context"):
            limit = getattr(self, name)
            is_given = limit is not None or name != "max_context"
            if is_given and (type(limit) is not int or limit < 1):
                raise RequestError(f"{name} is {limit}, must be 1 or more", where=f"/{name}")


@dataclass(frozen=True)
class OpenCall:
    """A call that is to be executed: its number in the turn, and its tool."""

    number: int
    call: ToolCall
    tool: FunctionTool


@dataclass(frozen=True)
class _LastTurn:
    """Why the next turn is the last one, without tools."""

    reason: Reason
    detail: str


class AgentLoop:
    """A run: `prepare` a turn, `take` its reply, execute the calls that are `open`, `answer` them;
    until there is a `reason` to end.

    Args:
        messages: the conversation, or the text of a user message.
        tools: functions, and all else that `read_tools` reads; or a function that lists them.
        options: of each turn.
        limits: of the run.
        spent: of its budget, before it begins.
        search: of further tools, which can be called once they are found.
        clock: in seconds.
        partial: calls that have a function are executed also where others of their turn are left to
            the caller. Otherwise all calls of such a turn are.
        final_answer: the last of `max_steps` turns is an answer, without calls.

    Attributes:
        shown: the tools that are given, as they are now.
        tools: those of the prompt: these, and the one that searches.
        options: of the next turn.

    Raises:
        Error: the tools cannot be offered, or not isolated.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: RunTools,
        options: Mapping[str, Any],
        *,
        limits: RunLimits,
        spent: Spent = NOTHING,
        search: ToolSearch | None = None,
        clock: Clock = time.monotonic,
        partial: bool = False,
        final_answer: bool = False,
    ):
        self._source, self._limits, self._search = tools, limits, search
        self._partial, self._final_answer = partial, final_answer
        self._given_hidden: Sequence[Any] = options.get("hidden_tools", ())
        self._hidden = _isolate_all(self._given_hidden, limits.isolate)
        self._found: list[Any] = []
        self._gone: list[FunctionTool] = []
        self._given: list[Any] = []
        self.shown: list[Any] = []
        self.tools: list[Any] = []
        if search is not None:
            _isolate_all(search.tools, limits.isolate)  # refuses what cannot be isolated
        self._read_tools(options)
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        self.options = dict(options)
        self._excluded: Sequence[ToolCall] = self.options.get("excluded_calls", ())
        self.reason: Reason | None = None
        self.detail = ""
        self._context = Context(messages)
        self._clock = clock
        self._started = clock() - spent.seconds
        self._spent = spent
        self._replies: list[Reply] = []
        self._results: list[CallResult] = []
        self._answers: list[CallResult | None] = []
        self._history = CallHistory(limits.max_repeats)
        self._declined: set[str] = set()
        self._warned: set[str] = set()  # repetitions that the model has read about
        self._refused: dict[str, ToolCall] = {}  # calls that it has read about so
        self._last_turn: _LastTurn | None = None

    @property
    def step(self) -> int:
        """How many turns there were."""
        return len(self._replies)

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation as the model reads it."""
        return self._context.shown

    @property
    def whole_messages(self) -> Sequence[Mapping[str, Any]]:
        """The whole conversation."""
        return self._context.messages

    @property
    def callable_tools(self) -> list[Any]:
        """The tools that the next turn may call: those of the prompt, and what was found."""
        return [*self.tools, *self._hidden, *self._found]

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return self._clock() - self._started

    @property
    def open(self) -> list[OpenCall]:
        """The calls of this turn that are to be executed, in order."""
        found: list[OpenCall] = []
        # There are no answers at all where the calls are left to the caller.
        for number, answer in enumerate(self._answers):
            call = self._replies[-1].calls[number]
            if answer is None and (tool := self.find_function(call)):
                found.append(OpenCall(number, call, tool))
        return found

    @property
    def refused(self) -> list[tuple[int, CallResult]]:
        """The calls of this turn that are not executed: their numbers, and why."""
        return [(number, answer) for number, answer in enumerate(self._answers) if answer]

    def find_function(self, call: ToolCall) -> FunctionTool | None:
        """The tool of a call, if it has a function."""
        tool = find_tool(call.name, [*self.callable_tools, *self._gone])
        if tool is None or tool.function is None:
            return None
        return tool

    def _read_tools(self, options: Mapping[str, Any]) -> None:
        """Reads the tools, if they are others than before."""
        given = list_tools(self._source)
        is_list = isinstance(given, list | tuple)
        if is_list and self._given and list(given) == self._given:
            return
        drop = options.get("drop_tools", True)
        # Refuses what cannot be offered, and says where.
        offer = read_offer(given, hidden=self._given_hidden, drop=drop)
        self._given = list(given)
        # So that signatures are read once.
        self.shown = _isolate_all(given, self._limits.isolate)
        self.tools = list(self.shown)
        if self._search is not None:
            self._search.check_names(offer.names)
            self.tools.append(self._search.tool)

    @property
    def has_live_tools(self) -> bool:
        """True if a turn may have other tools than the one before."""
        return callable(self._source)

    def remember(self, tools: Sequence[Any]) -> None:
        """This turn was recorded with these tools; its calls are read with those that are gone,
        too."""
        names = {tool.name for tool in self.callable_tools if isinstance(tool, FunctionTool)}
        for tool in tools:
            if isinstance(tool, FunctionTool) and tool.name not in names:
                self._gone.append(tool)

    def prepare(self, seconds: float) -> None:
        """A turn is about to begin, so many seconds after the run did."""
        self._gone = []
        if self.has_live_tools:
            self._read_tools(self.options)
        self._started = self._clock() - seconds
        self._spent = replace(self._spent, seconds=seconds)
        spent = self._limits.budget.find_spent(self._spent)
        if spent is not None and self._last_turn is None:
            self._last_turn = _LastTurn(Reason.BUDGET, f"{spent} is spent")
        if self._final_answer and self.step == self._limits.max_steps - 1 and not self._last_turn:
            self._last_turn = _LastTurn(Reason.MAX_STEPS, f"turn {self.step + 1} is the last one")
        if self._last_turn is not None:
            self.options["tool_choice"] = "none"
        if self._search is not None:
            found = self._search.list_found(self.whole_messages)
            self._found = _isolate_all(found, self._limits.isolate)
            self.options["hidden_tools"] = [*self._hidden, *self._found]
        excluded = list(self._excluded)
        for call in self._refused.values():
            if self._history.find_repetition(call):
                excluded.append(call)
        if excluded:
            self.options["excluded_calls"] = excluded
        else:
            self.options.pop("excluded_calls", None)

    def take(self, reply: Reply, seconds: float, started: Collection[int] = ()) -> None:
        """Reads a turn of the model.

        Args:
            reply: the turn.
            seconds: after the run began, it was over.
            started: the numbers of its calls that were begun before the process ended: they are not
                refused any more.
        """
        self._replies.append(reply)
        message = reply.message()
        if self.options.pop("prefill", False):  # the turn went on with the last message
            (last,) = normalise([self._context.pop()])
            message = read_message(last, "/messages").join(message)
        self._context.append(message)
        if (choice := self.options.get("tool_choice")) is not None:
            self.options["tool_choice"] = _relax(choice)
        self._started = self._clock() - seconds
        tokens = self._spent.tokens + reply.usage.completion_tokens
        self._spent = replace(self._spent, tokens=tokens, seconds=seconds)
        self._answers = []
        if reply.finish_reason == "length" or any(call.truncated for call in reply.calls):
            self.reason = Reason.LENGTH
            why = "the tokens ran out in this turn"
            self._answers = [refuse(call, Outcome.CUT, why) for call in reply.calls]
        elif not reply.calls:
            self.reason = Reason.STOP
            if self._last_turn is not None:
                self.reason, self.detail = self._last_turn.reason, self._last_turn.detail
            elif reply.unsure_calls:
                self.reason = Reason.UNSURE
                self.detail = explain_doubt(reply.unsure_calls)
            elif reply.barred_calls:
                self.reason = Reason.REPEATED
                self.detail = self._explain_repetition(reply.barred_calls[0])
        elif not all(map(self.find_function, reply.calls)):
            self.reason = Reason.TOOL_CALLS
            if self._partial:
                self._answers = self.judge(reply.calls, started)
                self._note_refusals(reply.calls)
        else:
            self._answers = self.judge(reply.calls, started)
            self._note_refusals(reply.calls)

    def judge(
        self, calls: Sequence[ToolCall], started: Collection[int] = ()
    ) -> list[CallResult | None]:
        """For each call, from the first of a turn on: None where it is to be executed, else why
        not. Changes nothing."""
        answers: list[CallResult | None] = []
        spent = self._spent
        for number, call in enumerate(calls):
            if self._partial and self.find_function(call) is None:
                answers.append(None)  # the caller decides about it
                continue
            cost = self._price(call)
            answer = None
            if number not in started:
                answer = self._find_refusal(call) or self._find_excess(call, spent, cost)
            if answer is None:
                spent = replace(spent, calls=spent.calls + 1, cost=spent.cost + cost)
            answers.append(answer)
        return answers

    def _find_refusal(self, call: ToolCall) -> CallResult | None:
        """Why a call is not executed because of what there was before."""
        if identify_call(call) in self._declined:
            return refuse(call, Outcome.DECLINED, "declined before")
        repetition = self._history.find_repetition(call)
        if repetition is None:
            return None
        text = f"{repetition.text}; answer, or do something else"
        return refuse(call, Outcome.REPEATED, text)

    def _find_excess(self, call: ToolCall, spent: Spent, cost: float) -> CallResult | None:
        """Why a call is not executed because of what is left of the budget."""
        excess = self._limits.budget.find_excess(spent, cost)
        return None if excess is None else refuse(call, Outcome.OVER_BUDGET, excess)

    def _note_refusals(self, calls: Sequence[ToolCall]) -> None:
        """What follows from the calls that are not executed."""
        warned: set[str] = set()
        for call, answer in zip(calls, self._answers, strict=True):
            if answer is None:
                continue
            if answer.outcome is Outcome.DECLINED:
                self.reason = Reason.DECLINED
                self.detail = f"{call.name} was declined before"
            repetition = self._history.find_repetition(call)
            if answer.outcome is Outcome.REPEATED and repetition is not None:
                self._refused[identify_call(call)] = call
                warned.add(repetition.identity)
                if repetition.identity in self._warned:
                    detail = self._explain_repetition(call)
                    self._last_turn = _LastTurn(Reason.REPEATED, detail)
        self._warned |= warned

    def _explain_repetition(self, call: ToolCall) -> str:
        repetition = self._history.find_repetition(call)
        return f"{call.name}: {repetition.text}" if repetition else call.name

    def _price(self, call: ToolCall) -> float:
        tool = find_tool(call.name, self.callable_tools)
        if tool is None or tool.cost is None:
            return 0.0
        cost = tool.cost(call) if callable(tool.cost) else tool.cost
        return check_cost(cost, call.name)

    def wait(self) -> None:
        """Calls of the turn wait for approval: the run ends here, none of them is executed."""
        self.reason = Reason.WAITING
        self._answers = []

    def answer(self, results: Sequence[CallResult]) -> None:
        """Takes the results of the open calls; the model reads those of all calls of the turn."""
        executed = iter(results)
        calls = self._context.messages[-1].get("tool_calls", ())
        for number, (call, known) in enumerate(zip(calls, self._answers, strict=False)):
            if known is None and self.find_function(self._replies[-1].calls[number]) is None:
                continue  # it is left to the caller
            answer = known or next(executed)
            self._note(answer)
            self._results.append(answer)
            self._context.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "name": answer.call.name,
                    "content": answer.content,
                }
            )
        if self.reason is not None:
            return
        if self.step == self._limits.max_steps:
            self.reason = Reason.MAX_STEPS
        elif self._limits.max_context is not None:
            self._context.shrink(self._limits.max_context, self._replies[-1].usage, self.step)

    def _note(self, result: CallResult) -> None:
        match result.outcome:
            case Outcome.DECLINED:
                self._declined.add(identify_call(result.call))
            case Outcome.DONE | Outcome.FAILED | Outcome.UNKNOWN:
                self._history.note(result.call, result.content)
                self._spent = replace(
                    self._spent,
                    calls=self._spent.calls + 1,
                    cost=self._spent.cost + self._price(result.call),
                )
            case Outcome.REPEATED | Outcome.OVER_BUDGET | Outcome.CUT:
                pass

    def finish(self, id: str | None = None) -> Run:
        """The run, once there is a reason.

        Args:
            id: of the run in its record.
        """
        assert self.reason is not None
        return Run(
            messages=self._context.messages,
            reply=self._replies[-1],
            steps=self.step,
            reason=self.reason,
            calls=tuple(self._results),
            detail=self.detail,
            spent=self._spent,
            dropped=tuple(self._context.dropped),
            id=id,
        )


def _isolate_all(tools: Sequence[Any], isolate: bool | Isolation) -> list[Any]:
    return [_isolate(as_tool(tool), isolate) for tool in tools]


def _isolate(tool: Any, isolate: bool | Isolation) -> Any:
    """The tool with the bounds of the run, unless it has its own."""
    if not isinstance(tool, FunctionTool) or tool.function is None:
        return tool
    isolation = tool.isolation or read_isolation(isolate)
    if isolation is not None:
        check_isolated(tool.function, tool.name)
    return replace(tool, isolation=isolation)


def _relax(choice: Any) -> Any:
    """The same `tool_choice`, but that no call is required."""
    if read_policy(choice).choice is not Choice.REQUIRED:
        return choice
    match choice:
        case {"allowed_tools": {"mode": _} as body}:
            return {**choice, "allowed_tools": {**body, "mode": "auto"}}
        case {"type": "allowed_tools"}:
            return {**choice, "mode": "auto"}
        case {"disable_parallel_tool_use": single}:
            return {"type": "auto", "disable_parallel_tool_use": single}
        case _:
            return "auto"
