"""The options of runs by name."""

from collections.abc import Sequence
from typing import Any, Literal

from constrained.agent.actions import Approve
from constrained.agent.budget import Budget
from constrained.agent.search.tool_search import ToolSearch
from constrained.limits.isolated_call import Isolation
from constrained.model.call_options import Options
from constrained.model.confidence_policy import Unsure

UnsureName = Literal["approve", "ask", "decline"]
"""What users may write in place of `Unsure`."""


class RunOptions(Options, total=False):
    """Options of `Model.run`: these, and those of a call (`Options`).

    Attributes:
        search_tools: tools that the model finds by a search, as a list or a `ToolSearch`: hundreds
            of them. The prompt has a tool `search_tools`; the tools that it finds can be called
            from then on, and the prompt stays cached. Default: None.
        max_steps: maximum number of turns. The calls of the last one are still executed.
            Default: 8.
        max_repeats: after this many repetitions, a call is not executed again, and the model reads
            that in its place: the same call with the same result, a cycle of calls, or a call whose
            arguments only grow. If it continues like that, it has to answer without calls. Default:
            2.
        approve: a function that is called before each call is executed. True allows the call;
            anything else declines it, and the model reads that, with the text if it is one. If the
            model makes a declined call again, the run ends. May be async in `arun`.
        min_confidence: ask `approve` only about calls whose `confidence.lowest` is below this, from
            0 to 1; see `unsure`. No call starts early then. Default: None: ask about all calls.
        unsure: what happens to calls below `min_confidence`: "approve" (the default), or instead of
            the turn, before any of its calls is made: "ask": the model asks the user a question;
            "decline": it answers without a call. The run then ends with reason `unsure`, and
            `reply.unsure_calls` has the calls.
        budget: the tokens, seconds, calls and cost that may be spent. After that, the model has one
            last turn to answer without calls. Default: None, no limit.
        max_context: maximum number of prompt tokens. Beyond it, the oldest tool results are
            replaced by a note. Default: None: a prompt that does not fit the context is an error.
        isolate: execute functions in separate processes, with limits on time and memory; True: the
            limits of `Isolation`. The functions must be defined at the top of a module. Default:
            False.
    """

    search_tools: ToolSearch | Sequence[Any] | None
    max_steps: int
    max_repeats: int
    approve: Approve | None
    min_confidence: float | None
    unsure: Unsure | UnsureName
    budget: Budget
    max_context: int | None
    isolate: bool | Isolation
