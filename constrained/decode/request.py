"""One turn to generate, and what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from constrained.deadline import Deadline, Timings
from constrained.decode.assistant_prefix import Prefix
from constrained.decode.checked_values import Watch
from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.events import StreamEvent
from constrained.decode.reasoning_budget import ReasoningBudget
from constrained.engine.protocol import Sampling
from constrained.logits import TokenDrawn
from constrained.mask import Matcher
from grammars.parse.parser import Parser
from grammars.turn import Event

DEFAULT_SAMPLING = Sampling()


class Finish(StrEnum):
    """Why a generation ended: the turn was over, the tokens were, or nobody wants it any more."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Request:
    """One turn to generate.

    Args:
        prompt: token ids, those of the prefix included.
        matcher: holds the turn to its grammar, from its first token; None: anything goes.
        parser: makes what reads the text as it comes.
        sampling: how tokens are drawn.
        max_tokens: at most so many tokens are generated.
        force: take tokens that the grammar forces without asking the model, several at a time.
        budget: bounds the reasoning; None: nothing does.
        reserve: makes the reserve of a turn of at most so many tokens, so that the turn ends well
            when they run out; None: it is cut then.
        sink: is told of events, and of the tokens if `logprobs` asks for them, as they come; all of
            them are in the `Generation` as well.
        is_wanted: asked once a step; a turn that nobody wants ends there.
        watch: what is held back until it is checked; what does not fit is written once more.
        deadline: on the clock of the schedule; where that is reached first, the request fails.
        boundaries: numbers of first tokens of the prompt that other prompts are likely to share,
            such as where the system message and the tools end.
        closed: from so many tokens of the prompt on, the next one of the conversation may have
            others; 0: that is not known.
        draft: where the turn repeats a text, let the model look at several tokens of it together.
        stops: the content ends in front of the first of these texts, and the turn with it.
        logprobs: note how likely each token was, and so many of the most likely ones; the model is
            asked about each token then, also where one is forced. None: note nothing.
        prefix: what the turn has already; the matcher is behind its tokens.
    """

    prompt: Sequence[int]
    matcher: Matcher | None
    parser: Callable[[], Parser]
    sampling: Sampling = DEFAULT_SAMPLING
    max_tokens: int = 1024
    force: bool = True
    budget: ReasoningBudget | None = None
    reserve: Callable[[int], CompletionReserve] | None = None
    sink: Callable[[Sequence[StreamEvent]], None] = field(default=lambda events: None)
    is_wanted: Callable[[], bool] = field(default=lambda: True)
    watch: Watch = field(default_factory=Watch)
    deadline: Deadline | None = None
    boundaries: tuple[int, ...] = ()
    closed: int = 0
    draft: bool = True
    prefix: Prefix = field(default_factory=Prefix)
    stops: tuple[str, ...] = ()
    logprobs: int | None = None


@dataclass(frozen=True)
class Generation:
    """What came of a request.

    Args:
        tokens: the generated ids, without the end token.
        text: what they spell.
        events: what the parser read in it; what was sent of it, if a stop text was found.
        finish: why it ended.
        forward_passes: decodes that this sequence took part in, that of the prompt included.
        reasoning_tokens: how many of them the model has spent inside the reasoning block, without
            those that close it.
        ended_at: how many of `events` had come when the tokens ran out and the shortest ending
            was written; None if the turn ended by itself, or was cut.
        discarded: how many tokens more were generated, for what did not fit and was written again.
        cached: how many tokens of the prompt were known already, and not computed.
        drafted: how many tokens the model looked at that were copied from the text before them.
        accepted: how many of those were right.
        stopped: the stop text that was found, if any; `tokens` and `text` have it, and perhaps
            more.
        logprobs: one for each of `tokens`, if that was asked for; those that were sent, if a stop
            text was found.
        timings: how long it took; does not count where generations are compared.
    """

    tokens: tuple[int, ...]
    text: str
    events: tuple[Event, ...]
    finish: Finish
    forward_passes: int
    reasoning_tokens: int = 0
    ended_at: int | None = None
    discarded: int = 0
    cached: int = 0
    drafted: int = 0
    accepted: int = 0
    stopped: str | None = None
    logprobs: tuple[TokenDrawn, ...] = ()
    timings: Timings = field(default=Timings(), compare=False)
