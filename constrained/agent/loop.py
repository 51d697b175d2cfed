"""The state of a run: which calls are executed, what the next turn gets, and when the run is over.

It executes nothing itself. So sync runs, async runs and runs of the server share it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.agent.context import Context
from constrained.agent.finished_run import Reason, Run
from constrained.agent.judge import CallJudge, RunLimits
from constrained.agent.run_tools import RunTools, RunToolset
from constrained.agent.search.tool_search import ToolSearch
from constrained.model.confidence_policy import explain_unsure_calls
from constrained.model.reply import Reply
from constrained.prompt.assistant_prefill import read_message
from constrained.prompt.messages import normalise
from constrained.prompt.tools.execution import CallResult, Outcome, refuse
from constrained.prompt.tools.shapes import read_policy
from grammars.turn import Choice, ToolCall


@dataclass(frozen=True)
class NextTurn:
    """What a turn is generated from: the conversation that the model reads, the tools of the
    prompt, and further options."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class _LastTurn:
    """Why the next turn is the last one, without tools."""

    reason: Reason
    detail: str


class AgentLoop:
    """A run. For each turn: `prepare` it, `take` its reply, execute the calls that are `open`, and
    `answer` them; until there is a `reason` to end.

    Args:
        options: of each turn.
        search: a search of further tools, which can be called after it has found them.

    Attributes:
        reason: why the run is over; None: it is not over.
        detail: more about the reason; "" if there is no more.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: RunTools,
        options: Mapping[str, Any],
        *,
        limits: RunLimits,
        search: ToolSearch | None = None,
    ):
        self._limits = limits
        self.toolset = RunToolset(
            tools,
            hidden=options.get("hidden_tools", ()),
            search=search,
            isolate=limits.isolate,
            drop=options.get("drop_tools", True),
        )
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        self._options = dict(options)
        self._excluded: Sequence[ToolCall] = options.get("excluded_calls", ())
        self.reason: Reason | None = None
        self.detail = ""
        self._context = Context(messages)
        self._started = time.monotonic()
        self._replies: list[Reply] = []
        self._results: list[CallResult] = []
        self._answers: list[CallResult | None] = []
        self.judge = CallJudge(self.toolset, limits)
        self._last_turn: _LastTurn | None = None

    @property
    def step(self) -> int:
        """The number of turns so far."""
        return len(self._replies)

    @property
    def open(self) -> list[tuple[int, ToolCall]]:
        """The calls of this turn that the run has to execute, with their numbers, in order."""
        found: list[tuple[int, ToolCall]] = []
        # If the caller executes the calls, there are no answers.
        for number, answer in enumerate(self._answers):
            call = self._replies[-1].calls[number]
            if answer is None:
                found.append((number, call))
        return found

    @property
    def refused(self) -> list[tuple[int, CallResult]]:
        """The calls of this turn that are not executed: their numbers, and why."""
        return [(number, answer) for number, answer in enumerate(self._answers) if answer]

    def prepare(self) -> NextTurn:
        """Returns the next turn, which begins now."""
        self.toolset.begin_turn()
        self.judge.spend(time.monotonic() - self._started)
        spent = self._limits.budget.find_spent(self.judge.spent)
        if spent is not None and self._last_turn is None:
            self._last_turn = _LastTurn(Reason.BUDGET, f"{spent} is spent")
        options = self._options
        if self._last_turn is not None:
            options["tool_choice"] = "none"
        if self.toolset.has_search:
            options["hidden_tools"] = self.toolset.find_hidden(self._context.messages)
        excluded = [*self._excluded, *self.judge.list_excluded()]
        if excluded:
            options["excluded_calls"] = excluded
        else:
            options.pop("excluded_calls", None)
        return NextTurn(self._context.shown, self.toolset.prompt, dict(options))

    def take(self, reply: Reply) -> None:
        """Reads a turn of the model, which ends now."""
        self._replies.append(reply)
        message = reply.message()
        if self._options.pop("prefill", False):  # the turn went on with the last message
            (last,) = normalise([self._context.pop()])
            message = read_message(last, "/messages").join(message)
        self._context.append(message)
        if (choice := self._options.get("tool_choice")) is not None:
            self._options["tool_choice"] = _relax(choice)
        self.judge.spend(time.monotonic() - self._started, reply.usage.completion_tokens)
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
                self.detail = self.judge.explain_repetition(reply.barred_calls[0])
        elif not all(map(self.toolset.find_function, reply.calls)):
            self.reason = Reason.TOOL_CALLS
        else:
            self._judge_calls(reply.calls)

    def _judge_calls(self, calls: Sequence[ToolCall]) -> None:
        """Decides about the calls of this turn. Refused calls may end the run, or make the next
        turn the last one."""
        self._answers = self.judge.judge(calls)
        for answer in self._answers:
            if answer is not None and answer.outcome is Outcome.DECLINED:
                self.reason = Reason.DECLINED
                self.detail = f"{answer.call.name} was declined before"
        repeated = self.judge.warn([answer for answer in self._answers if answer is not None])
        if repeated is not None:
            self._last_turn = _LastTurn(Reason.REPEATED, repeated)

    def answer(self, results: Sequence[CallResult]) -> None:
        """Takes the results of the open calls; adds those of all calls to the messages."""
        executed = iter(results)
        calls = self._context.messages[-1].get("tool_calls", ())
        for call, known in zip(calls, self._answers, strict=False):
            answer = known or next(executed)
            self.judge.note(answer)
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

    def finish(self) -> Run:
        """Returns the run, once there is a reason."""
        assert self.reason is not None
        return Run(
            messages=self._context.messages,
            reply=self._replies[-1],
            steps=self.step,
            reason=self.reason,
            calls=tuple(self._results),
            detail=self.detail,
            spent=self.judge.spent,
            dropped=tuple(self._context.dropped),
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
