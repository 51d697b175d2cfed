"""The state of a run: which calls are executed, what the next turn gets, and when the run is over.

It executes nothing itself. So sync runs, async runs and runs that are read from a record share it.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.agent.budget import NO_BUDGET, NOTHING, Budget, Spent, check_cost
from constrained.agent.context import Context
from constrained.agent.finished_run import Reason, Run
from constrained.agent.repetition import CallHistory, identify_call
from constrained.agent.run_tools import RunTools, RunToolset
from constrained.agent.search.tool_search import ToolSearch
from constrained.errors import RequestError
from constrained.limits.deadline import Clock
from constrained.limits.isolated_call import Isolation
from constrained.model.confidence_policy import explain_unsure_calls
from constrained.model.reply import Reply
from constrained.prompt.assistant_prefill import read_message
from constrained.prompt.messages import normalise
from constrained.prompt.tools.call_result import CallResult, Outcome, refuse
from constrained.prompt.tools.functions import FunctionTool, find_tool
from constrained.prompt.tools.shapes import read_policy
from grammars.turn import Choice, ToolCall


@dataclass(frozen=True)
class RunLimits:
    """The limits of a run; see `RunOptions`.

    Raises:
        RequestError: one is below 1, or has a wrong type.
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
        if not isinstance(self.budget, Budget):
            hint = "Give a Budget, such as Budget(seconds=60)"
            raise RequestError(f"budget is {self.budget!r}", where="/budget", hint=hint)
        if not isinstance(self.isolate, (bool, Isolation)):
            hint = "Give True, or an Isolation with limits"
            raise RequestError(f"isolate is {self.isolate!r}", where="/isolate", hint=hint)


@dataclass(frozen=True)
class OpenCall:
    """A call that the run executes.

    Args:
        number: of the call in its turn, from 0.
        call: the call.
        tool: its tool.
    """

    number: int
    call: ToolCall
    tool: FunctionTool


@dataclass(frozen=True)
class _LastTurn:
    """Why the next turn is the last one, without tools."""

    reason: Reason
    detail: str


class AgentLoop:
    """A run. For each turn: `prepare` it, `take` its reply, execute the calls that are `open`, and
    `answer` them; until there is a `reason` to end.

    Args:
        messages: the conversation, or the text of a user message.
        tools: functions, or tools in any shape that `read_tools` reads; or a function that lists
            them.
        options: of each turn.
        limits: of the run.
        spent: the part of the budget that was spent before.
        search: a search of further tools, which can be called after it has found them.
        clock: in seconds.
        partial: execute the calls that have a function even if the caller has to execute others of
            the same turn. False: then the caller executes all calls of such a turn.
        final_answer: the last of `max_steps` turns is an answer, without calls.

    Attributes:
        toolset: the tools.
        options: of the next turn.
        reason: why the run is over; None: it is not over.
        detail: more about the reason; "" if there is no more.

    Raises:
        Error: the tools cannot be offered, or cannot be isolated.
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
        self._limits = limits
        self._partial, self._final_answer = partial, final_answer
        self.toolset = RunToolset(
            tools,
            hidden=options.get("hidden_tools", ()),
            search=search,
            isolate=limits.isolate,
            drop=options.get("drop_tools", True),
        )
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
        self._warned: set[str] = set()  # repetitions whose refusals the model has read
        self._refused: dict[str, ToolCall] = {}  # calls that were refused as repetitions
        self._last_turn: _LastTurn | None = None

    @property
    def step(self) -> int:
        """The number of turns so far."""
        return len(self._replies)

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation that the model reads."""
        return self._context.shown

    @property
    def whole_messages(self) -> Sequence[Mapping[str, Any]]:
        """The whole conversation."""
        return self._context.messages

    @property
    def tools(self) -> list[Any]:
        """The tools of the prompt."""
        return self.toolset.prompt

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return self._clock() - self._started

    @property
    def open(self) -> list[OpenCall]:
        """The calls of this turn that the run has to execute, in order."""
        found: list[OpenCall] = []
        # If the caller executes the calls, there are no answers.
        for number, answer in enumerate(self._answers):
            call = self._replies[-1].calls[number]
            if answer is None and (tool := self.toolset.find_function(call)):
                found.append(OpenCall(number, call, tool))
        return found

    @property
    def refused(self) -> list[tuple[int, CallResult]]:
        """The calls of this turn that are not executed: their numbers, and why."""
        return [(number, answer) for number, answer in enumerate(self._answers) if answer]

    def prepare(self, seconds: float) -> None:
        """Prepares the options of the next turn.

        Args:
            seconds: the time from the beginning of the run to the beginning of the turn.
        """
        self.toolset.begin_turn()
        self._started = self._clock() - seconds
        self._spent = replace(self._spent, seconds=seconds)
        spent = self._limits.budget.find_spent(self._spent)
        if spent is not None and self._last_turn is None:
            self._last_turn = _LastTurn(Reason.BUDGET, f"{spent} is spent")
        if self._final_answer and self.step == self._limits.max_steps - 1 and not self._last_turn:
            self._last_turn = _LastTurn(Reason.MAX_STEPS, f"turn {self.step + 1} is the last one")
        if self._last_turn is not None:
            self.options["tool_choice"] = "none"
        if self.toolset.has_search:
            self.options["hidden_tools"] = self.toolset.find_hidden(self.whole_messages)
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
            seconds: the time from the beginning of the run to the end of the turn.
            started: the numbers of calls that an earlier process has begun to execute; these are
                not refused.
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
                self.detail = explain_unsure_calls(reply.unsure_calls)
            elif reply.barred_calls:
                self.reason = Reason.REPEATED
                self.detail = self._explain_repetition(reply.barred_calls[0])
        elif not all(map(self.toolset.find_function, reply.calls)):
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
        """Decides which calls of a turn are executed; changes nothing.

        Returns:
            For each call: None if it is executed, otherwise the result that says why not.
        """
        answers: list[CallResult | None] = []
        spent = self._spent
        for number, call in enumerate(calls):
            if self._partial and self.toolset.find_function(call) is None:
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
        """Returns the refusal of a call that was declined or repeated before; None: it is not
        refused."""
        if identify_call(call) in self._declined:
            return refuse(call, Outcome.DECLINED, "declined before")
        repetition = self._history.find_repetition(call)
        if repetition is None:
            return None
        text = f"{repetition.text}; answer, or do something else"
        return refuse(call, Outcome.REPEATED, text)

    def _find_excess(self, call: ToolCall, spent: Spent, cost: float) -> CallResult | None:
        """Returns the refusal of a call that the budget does not allow; None: it is not refused."""
        excess = self._limits.budget.find_excess(spent, cost)
        return None if excess is None else refuse(call, Outcome.OVER_BUDGET, excess)

    def _note_refusals(self, calls: Sequence[ToolCall]) -> None:
        """Notes the refused calls, which may end the run or make the next turn the last one."""
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
        tool = find_tool(call.name, self.toolset.available)
        if tool is None or tool.cost is None:
            return 0.0
        cost = tool.cost(call) if callable(tool.cost) else tool.cost
        return check_cost(cost, call.name)

    def wait(self) -> None:
        """Ends the run, because calls wait for approval; no call of this turn is executed."""
        self.reason = Reason.WAITING
        self._answers = []

    def answer(self, results: Sequence[CallResult]) -> None:
        """Takes the results of the open calls; adds those of all calls to the messages."""
        executed = iter(results)
        calls = self._context.messages[-1].get("tool_calls", ())
        for number, (call, known) in enumerate(zip(calls, self._answers, strict=False)):
            function = self.toolset.find_function(self._replies[-1].calls[number])
            if known is None and function is None:
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
        """Returns the run, once there is a reason.

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


def _relax(choice: Any) -> Any:
    """Returns the same `tool_choice`, but without requiring a call."""
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
