"""Decides which calls of a run are executed: none that was declined before, that only repeats
earlier ones, or that is beyond the budget."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from constrained.agent.budget import NO_BUDGET, Budget, Spent, check_cost
from constrained.agent.repetition import CallHistory, identify_call
from constrained.agent.run_tools import RunToolset
from constrained.errors import RequestError
from constrained.limits.isolated_call import Isolation
from constrained.prompt.tools.execution import CallResult, Outcome, refuse
from constrained.prompt.tools.functions import find_tool
from grammars.turn import ToolCall


@dataclass(frozen=True)
class RunLimits:
    """The limits of a run; see `RunOptions`."""

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


class CallJudge:
    """Judges the calls of one run."""

    def __init__(self, toolset: RunToolset, limits: RunLimits):
        self._toolset = toolset
        self._limits = limits
        self.spent = Spent()
        self._history = CallHistory(limits.max_repeats)
        self._declined: set[str] = set()
        self._warned: set[str] = set()  # repetitions whose refusals the model has read
        self._refused: dict[str, ToolCall] = {}  # calls that were refused as repetitions

    def spend(self, seconds: float, tokens: int = 0) -> None:
        """Notes the seconds since the run began, and further tokens."""
        self.spent = replace(self.spent, seconds=seconds, tokens=self.spent.tokens + tokens)

    def list_excluded(self) -> list[ToolCall]:
        """Lists the calls that the next turn may not make: they were refused as repetitions, and
        still are."""
        return [call for call in self._refused.values() if self._history.find_repetition(call)]

    def judge(self, calls: Sequence[ToolCall]) -> list[CallResult | None]:
        """Returns None for each call of a turn that is executed, and for others the result that
        says why not; changes nothing."""
        answers: list[CallResult | None] = []
        spent = self.spent
        for call in calls:
            cost = self._price(call)
            answer = self._find_refusal(call)
            excess = self._limits.budget.find_excess(spent, cost)
            if answer is None and excess is not None:
                answer = refuse(call, Outcome.OVER_BUDGET, excess)
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

    def explain_repetition(self, call: ToolCall) -> str:
        """Describes the repetition that a call would continue."""
        repetition = self._history.find_repetition(call)
        return f"{call.name}: {repetition.text}" if repetition else call.name

    def _price(self, call: ToolCall) -> float:
        tool = find_tool(call.name, self._toolset.available)
        if tool is None or tool.cost is None:
            return 0.0
        cost = tool.cost(call) if callable(tool.cost) else tool.cost
        return check_cost(cost, call.name)

    def warn(self, refused: Sequence[CallResult]) -> str | None:
        """Notes which repetitions the model gets to read about. Returns the one that it goes on
        with all the same, in words; None: there is none."""
        ignored: str | None = None
        warned: set[str] = set()
        for answer in refused:
            repetition = self._history.find_repetition(answer.call)
            if answer.outcome is not Outcome.REPEATED or repetition is None:
                continue
            self._refused[identify_call(answer.call)] = answer.call
            warned.add(repetition.identity)
            if repetition.identity in self._warned:
                ignored = self.explain_repetition(answer.call)
        self._warned |= warned
        return ignored

    def note(self, result: CallResult) -> None:
        """Notes what a call came to."""
        match result.outcome:
            case Outcome.DECLINED:
                self._declined.add(identify_call(result.call))
            case Outcome.DONE | Outcome.FAILED:
                self._history.note(result.call, result.content)
                self.spent = replace(
                    self.spent,
                    calls=self.spent.calls + 1,
                    cost=self.spent.cost + self._price(result.call),
                )
            case Outcome.REPEATED | Outcome.OVER_BUDGET | Outcome.CUT:
                pass
