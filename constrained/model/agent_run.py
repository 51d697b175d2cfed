"""A run of the agent loop: what it is made of, how far it is, and why it ends."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constrained.assistant_prefill import read_message
from constrained.errors import RequestError
from constrained.messages import normalise
from constrained.reply import Reply
from constrained.tools.execution import format_result
from constrained.tools.functions import as_tool, find_tool
from constrained.tools.offer import read_offer
from constrained.tools.shapes import read_policy
from grammars.turn import Choice, ToolCall

LONGEST_ERROR = 1000  # characters of an error that the model is shown


class Reason(StrEnum):
    """Why a run ended."""

    STOP = "stop"  # the model has answered
    LENGTH = "length"  # the tokens ran out
    MAX_STEPS = "max_steps"
    REPEATED = "repeated"  # the model was told that it repeats itself, and did so again
    DECLINED = "declined"  # the model made a call again that had been declined
    TOOL_CALLS = "tool_calls"  # calls of tools without a function are left to the caller


class Outcome(StrEnum):
    """What became of a call."""

    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    REPEATED = "repeated"  # not executed: it has had the same result so often
    CUT = "cut"  # not executed: the tokens ran out


@dataclass(frozen=True)
class CallResult:
    """A call and what became of it.

    Args:
        content: what the model is told.
        result: what the function returned.
        error: what it raised, or why its arguments do not fit.
    """

    call: ToolCall
    outcome: Outcome
    content: str
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        messages: the whole conversation in OpenAI form; a further run can go on with it.
        reply: the last turn.
        steps: how many turns the model generated.
        reason: why it ended.
        calls: all calls that were answered, in order.
    """

    messages: list[Mapping[str, Any]]
    reply: Reply
    steps: int
    reason: Reason
    calls: tuple[CallResult, ...]

    @property
    def content(self) -> str:
        """The text of the last turn."""
        return self.reply.content

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls that are left to the caller: all of the last turn, or none."""
        return self.reply.calls if self.reason is Reason.TOOL_CALLS else ()


@dataclass
class _Past:
    """What became of one call (name and arguments alike) in earlier turns."""

    content: str = ""
    count: int = 0  # executions in a row that had this content
    told: bool = False
    declined: bool = False


class Progress:
    """A run under way: `take` a reply, execute what is `open`, `answer`; until there is a reason.

    It executes nothing itself, so that it serves sync and async runs alike.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: Sequence[Any],
        max_steps: int,
        max_repeats: int,
        options: Mapping[str, Any],
    ):
        for name, limit in (("max_steps", max_steps), ("max_repeats", max_repeats)):
            if limit < 1:
                raise RequestError(f"{name} is {limit}, must be 1 or more", where=f"/{name}")
        # Refuses what cannot be offered, and says where.
        read_offer(tools, drop=options.get("drop_tools", True))
        self.tools = [as_tool(tool) for tool in tools]  # so that signatures are read once
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        self.messages: list[Mapping[str, Any]] = list(messages)
        self.options = dict(options)
        self.reason: Reason | None = None
        self._max_steps = max_steps
        self._max_repeats = max_repeats
        self._replies: list[Reply] = []
        self._results: list[CallResult] = []
        self._answers: list[CallResult | None] = []
        self._past: dict[str, _Past] = {}

    @property
    def open(self) -> list[ToolCall]:
        """The calls of this turn that are to be executed, in order."""
        calls = self._replies[-1].calls if self._answers else ()
        return [c for c, answer in zip(calls, self._answers, strict=True) if answer is None]

    def take(self, reply: Reply) -> None:
        """Reads a turn of the model."""
        self._replies.append(reply)
        message = reply.message()
        if self.options.pop("prefill", False):  # the turn went on with the last message
            (last,) = normalise([self.messages.pop()])
            message = read_message(last, "/messages").join(message)
        self.messages.append(message)
        if (choice := self.options.get("tool_choice")) is not None:
            self.options["tool_choice"] = _relax(choice)
        functions = [find_tool(call.name, self.tools) for call in reply.calls]
        self._answers = []
        if reply.finish_reason == "length" or any(call.truncated for call in reply.calls):
            self.reason = Reason.LENGTH
            text = _explain("not executed: the tokens ran out in this turn")
            self._answers = [CallResult(call, Outcome.CUT, text) for call in reply.calls]
        elif not reply.calls:
            self.reason = Reason.STOP
        elif any(tool is None or tool.function is None for tool in functions):
            self.reason = Reason.TOOL_CALLS
        else:
            self._answers = [self._recall(call) for call in reply.calls]

    def answer(self, results: Sequence[CallResult]) -> None:
        """Takes the results of what was open, and tells the model about all calls of the turn."""
        made = iter(results)
        answers = [next(made) if answer is None else answer for answer in self._answers]
        self.messages += self._write(answers)
        self._results += answers
        for result in answers:
            self._remember(result)
        if self.reason is None and len(self._replies) == self._max_steps:
            self.reason = Reason.MAX_STEPS

    def finish(self) -> Run:
        """The run, once there is a reason."""
        assert self.reason is not None
        replies = self._replies
        return Run(self.messages, replies[-1], len(replies), self.reason, tuple(self._results))

    def _recall(self, call: ToolCall) -> CallResult | None:
        """The answer to a call that is not executed because of what there was before."""
        past = self._past.get(_key(call), _Past())
        if past.declined:
            self.reason = Reason.DECLINED
            return CallResult(call, Outcome.DECLINED, _explain("not executed: declined before"))
        if past.count < self._max_repeats:
            return None
        if past.told:
            self.reason = Reason.REPEATED
        text = f"not executed: this call has had the same result {past.count} times in a row"
        return CallResult(call, Outcome.REPEATED, _explain(f"{text}; answer, or do something else"))

    def _remember(self, result: CallResult) -> None:
        past = self._past.setdefault(_key(result.call), _Past())
        match result.outcome:
            case Outcome.DECLINED:
                past.declined = True
            case Outcome.REPEATED:
                past.told = True
            case Outcome.DONE | Outcome.FAILED:
                past.count = past.count + 1 if past.content == result.content else 1
                past.content = result.content
            case Outcome.CUT:
                pass

    def _write(self, answers: Sequence[CallResult]) -> Iterator[dict[str, Any]]:
        """The messages that tell the model."""
        calls = self.messages[-1].get("tool_calls", ()) if answers else ()
        for call, answer in zip(calls, answers, strict=True):
            yield {
                "role": "tool",
                "tool_call_id": call["id"],
                "name": answer.call.name,
                "content": answer.content,
            }


def _key(call: ToolCall) -> str:
    return json.dumps([call.name, call.arguments], sort_keys=True)


def _explain(error: str) -> str:
    return format_result({"error": error})


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


def decline(call: ToolCall, verdict: object) -> CallResult:
    """A call that was not approved; a verdict that is a text says why."""
    why = verdict if isinstance(verdict, str) and verdict else "the user does not allow it"
    return CallResult(call, Outcome.DECLINED, _explain(f"not executed: {why}"))


def fail(call: ToolCall, error: Exception) -> CallResult:
    """A call whose function raised; the model is told the type and the message."""
    said = str(error)
    said = said if len(said) <= LONGEST_ERROR else said[:LONGEST_ERROR] + " ..."
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return CallResult(call, Outcome.FAILED, _explain(text), error=error)
