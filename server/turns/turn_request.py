"""A request to the model: the one value that every dialect decodes its JSON to."""

from dataclasses import dataclass, field

from constrained.agent.budget import NOTHING, Spent
from constrained.agent.doubt import Doubt, Unsure
from constrained.engine.sampling import Sampling
from constrained.job import Job
from server.observe.lost_prefix import LostPrefix
from server.turns.offered_tools import OfferedTools
from server.turns.progress import NO_WISHES, ProgressWishes
from server.turns.reasoning import ReasoningPlan, ReasoningRequest


@dataclass(frozen=True)
class ReplyChoice:
    """Which turn becomes the reply.

    Args:
        best_of: of how many turns the likeliest is chosen.
        doubt: what happens to calls that the model is not sure of.
    """

    best_of: int = 1
    doubt: Doubt = field(default_factory=Doubt)

    @property
    def takes_back(self) -> bool:
        """True if another turn takes the place of one with such a call."""
        return self.doubt.unsure is not Unsure.APPROVE

    @property
    def measures(self) -> bool:
        """True if the reply tells how likely it was."""
        return self.best_of > 1 or self.doubt.min_confidence is not None


@dataclass(frozen=True)
class GenerationOptions:
    """The generation of replies, once there are a prompt and a grammar.

    Args:
        max_tokens: the most tokens of a reply; None: as many as the context has room for.
        sampling: how tokens are drawn.
        stop: stop texts: the content ends in front of the first of them.
        logprobs: how many alternatives are shown for each token; None: no log probabilities.
        choices: how many replies (OpenAI's `n`).
        progress: what the chunks say of how far the turns are.
        ignore_eos: the model does not end a turn by itself.
        trace: note what decided about each token.
        choice: which turn becomes the reply.
    """

    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    choices: int = 1
    progress: ProgressWishes = NO_WISHES
    ignore_eos: bool = False
    trace: bool = False
    choice: ReplyChoice = field(default_factory=ReplyChoice)

    @property
    def measures(self) -> bool:
        """True if the reply tells how likely it was."""
        return self.trace or self.choice.measures


@dataclass(frozen=True)
class TurnRequest:
    """A request, whatever its dialect.

    Args:
        job: messages, tools and what the reply has to be. `complete_request` fills in its fields
            of reasoning, its date and the ids of its calls.
        generation: how replies are generated.
        reasoning: what the request says of reasoning.
        ignored_fields: fields of the request that the server does not know.
        normalised: in how many places volatile text was made constant, see
            `server.turns.stable_prompts`.
        plan: what becomes of what the request says of reasoning.
        is_known: the grammar of the job is kept, see `Compiler.knows`.
        tools: how the client knows the tools of the job.
        lost_prefix: the part that has changed since the request before it in its conversation, if
            one has, so that what was computed of the prompt is of little use.
        repeated_calls: calls that the conversation has three times or more: names, and how often.
        max_calls: how many calls this server carries out; None: any number.
        spent: on calls that it has carried out already, in front of the first turn.
    """

    job: Job
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    reasoning: ReasoningRequest = field(default_factory=ReasoningRequest)
    ignored_fields: tuple[str, ...] = ()
    normalised: int = 0
    plan: ReasoningPlan = field(default_factory=ReasoningPlan)
    is_known: bool = False
    tools: OfferedTools = field(default_factory=OfferedTools)
    lost_prefix: LostPrefix | None = None
    repeated_calls: tuple[tuple[str, int], ...] = ()
    max_calls: int | None = None
    spent: Spent = NOTHING
