"""The request of a turn: every dialect decodes its JSON to this value."""

from dataclasses import dataclass, field

from constrained.engine.sampling import Sampling
from constrained.model.confidence_policy import ConfidencePolicy
from constrained.prompt.job import Job
from server.turns.offered_tools import OfferedTools
from server.turns.reasoning import ReasoningPlan, ReasoningRequest


@dataclass(frozen=True)
class GenerationOptions:
    """Options of a request that change neither its prompt nor its grammar.

    Args:
        max_tokens: the maximum number of tokens of a reply; None: as many as fit into the context.
        stop: stop texts: the content ends before the first of them.
        logprobs: how many alternatives the reply has for each token; None: no log probabilities.
        choices: the number of replies (OpenAI's `n`).
        reports_cached: the stream begins with how much of the prompt was cached.
    """

    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    choices: int = 1
    reports_cached: bool = False
    ignore_eos: bool = False
    trace: bool = False
    confidence_policy: ConfidencePolicy = field(default_factory=ConfidencePolicy)


@dataclass(frozen=True)
class TurnRequest:
    """A request, whatever its dialect.

    Args:
        job: messages, tools and the form of the reply. `complete_request` fills in reasoning, date
            and the ids of calls.
        normalised: in how many places volatile text was made constant, see
            `server.turns.stable_prompts`.
        dropped: how many of the oldest messages the prompt lacks, since it would be too long.
        plan: the reasoning that the turn gets; filled in by `complete_request`.
        tools: how the client knows the tools of the job.
        repeated_calls: calls that the conversation has three times or more: names and counts.
    """

    job: Job
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    reasoning: ReasoningRequest = field(default_factory=ReasoningRequest)
    ignored_fields: tuple[str, ...] = ()
    normalised: int = 0
    dropped: int = 0
    plan: ReasoningPlan = field(default_factory=ReasoningPlan)
    tools: OfferedTools = field(default_factory=OfferedTools)
    repeated_calls: tuple[tuple[str, int], ...] = ()
