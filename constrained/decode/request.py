"""The request to decode one turn, and the result: `Request` and `Generation`."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from secrets import token_hex

from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.endless.values import EndedValue, EndlessValues
from constrained.decode.filters.checked_values import CheckedSchemas
from constrained.decode.filters.events import StreamEvent
from constrained.decode.filters.written_prefill import WrittenPrefill
from constrained.decode.reasoning_budget import ReasoningBudget
from constrained.decode.token_trace import TracedToken
from constrained.engine.protocol import Sampling
from constrained.limits.deadline import Deadline, Timings
from constrained.mask.logprobs import TokenDrawn
from constrained.mask.matcher import Matcher
from constrained.prompt.cache_breakpoints import NO_BREAKPOINTS, CacheBreakpoints
from constrained.prompt.cache_scope import COMMON, CacheScope
from constrained.prompt.job import NO_LIMITS, CallLimits
from grammars.parse.parser import Parser
from grammars.schema.json_values import Json
from grammars.schema.nodes import Schema
from grammars.turn import Event, ToolCall
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.wire.envelopes import EnvelopeKind
from grammars.wire.format import Format

DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True)
class EnvelopeRules:
    """How a turn delivers calls in other envelopes.

    Args:
        keeps: keep the envelope, rather than to lead the turn back.
        list_openings: takes the name of a tool and whether text stands before the call, and lists
            the ways to open the call in the model's own format.
        encode: takes text, and returns its tokens, with markers as single tokens.
        continue_in: takes a format and the text that a call in it begins with, and compiles the
            rest of such a turn. Raises an Error if the format cannot write the call.
    """

    keeps: bool
    list_openings: Callable[[str, bool], Sequence[str]]
    encode: Callable[[str], list[int]]
    continue_in: "Callable[[Format, str], DecodeInput]"


@dataclass(frozen=True)
class DecodeInput:
    """The turn to decode: its prompt, its grammar, its limits. What depends on the compiled turn is
    here, what the caller alone decides in `DecodeOptions`.

    The `make_` and `build_` fields are functions: each decoding of the turn needs a new object.

    Args:
        prompt: token ids, including those of the prefill.
        make_parser: makes a parser of the turn's text.
        matcher: enforces the grammar of the turn, from its first token; None: free text.
        grammar: the same grammar, for a remote engine that enforces it, too.
        budget: limits the reasoning; None: no limit.
        build_closing: builds the grammar of the rest of the turn for a remote engine, where the
            reasoning has to end at once.
        make_reserve: takes the maximum number of tokens, and makes the completion reserve, with
            which a call ends well when the tokens run out; None: the turn is cut there.
        make_endless_values: makes the part that ends values which repeat themselves; None: such
            values go on.
        max_content_repetition: ends content that repeats itself, if this is how many tokens of a
            value may; None: such content goes on.
        checked_schemas: the schemas of values that are checked when they are complete. A value that
            does not fit is generated again.
        answer: the schema of the content, if it is one JSON value: it begins with its value, and
            its numbers are written as the schema means them. None: the content stays as it is.
        call_limits: how many calls the turn may have, and how often the same one.
        envelopes: how calls in other envelopes than the model's own are delivered; None: they are
            text.
        prefill: the assistant prefill; the matcher is after its tokens.
        breakpoints: positions in the prompt whose KV cache is kept longest.
        openings: the texts that a call begins with; (): the turn has no calls.
        scope: the cache scope of the prompt.
    """

    prompt: Sequence[int]
    make_parser: Callable[[], Parser]
    matcher: Matcher | None = None
    grammar: Grammar | None = None
    budget: ReasoningBudget | None = None
    build_closing: Callable[[], Grammar] | None = None
    make_reserve: Callable[[int], CompletionReserve] | None = None
    make_endless_values: Callable[[], EndlessValues] | None = None
    max_content_repetition: int | None = None
    checked_schemas: CheckedSchemas = field(default_factory=CheckedSchemas)
    answer: Schema | None = None
    call_limits: CallLimits = NO_LIMITS
    envelopes: EnvelopeRules | None = None
    prefill: WrittenPrefill = field(default_factory=WrittenPrefill)
    breakpoints: CacheBreakpoints = NO_BREAKPOINTS
    openings: tuple[str, ...] = ()
    scope: CacheScope = COMMON


@dataclass(frozen=True)
class DecodeOptions:
    """The options of decoding a turn.

    Args:
        max_tokens: the maximum number of generated tokens.
        sampling: the options of sampling.
        stops: stop texts; the content and the turn end before the first of them.
        logprobs: note the log probability of each token and of this many most likely tokens. The
            model is then evaluated at each token, forced ones included. None: note nothing.
        force: take fast-forward tokens (those that the grammar forces) without the model.
        draft: speculative decoding: decode tokens that are likely to come together.
        progress: send `ProgressMade` while the prompt is read, and before the events of each token.
        ignore_eos: sample no end token unless nothing else is allowed.
        trace: note what decided each token, and this many most likely tokens; None: no trace.
        written: the first tokens of the turn, if another process has generated them before it
            ended. The turn continues after them; their events are not sent again.
    """

    max_tokens: int = 1024
    sampling: Sampling = DEFAULT_SAMPLING
    stops: tuple[str, ...] = ()
    logprobs: int | None = None
    force: bool = True
    draft: bool = True
    progress: bool = False
    ignore_eos: bool = False
    trace: int | None = None
    written: tuple[int, ...] = ()


@dataclass(frozen=True)
class PassingOwner:
    """The owner of the choices of a single request, if its client is not known. No sequence is kept
    for it: it does not come back.

    Args:
        name: differs from all others.
    """

    name: str = field(default_factory=lambda: token_hex(16))


@dataclass(frozen=True)
class Request:
    """The request of one caller to decode a turn.

    Args:
        turn: the turn to decode.
        options: of decoding it.
        sink: takes the events as they come. All but `ProgressMade` are also in the `Generation`.
        is_wanted: is called once a step; if it returns False, the turn ends.
        deadline: on the clock of the schedule; the request fails if it is not done by then.
        owner: whose request it is; owners are admitted in turn. None: an owner of its own.
    """

    turn: DecodeInput
    options: DecodeOptions = field(default_factory=DecodeOptions)
    sink: Callable[[Sequence[StreamEvent]], None] = field(default=lambda events: None)
    is_wanted: Callable[[], bool] = field(default=lambda: True)
    deadline: Deadline | None = None
    owner: Hashable | None = None


@dataclass(frozen=True)
class RemoteNote:
    """The remote engine that has sampled the tokens.

    Args:
        lacks: the options of the request that it does not support, and that were left out.
    """

    engine: str
    lacks: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        return {"engine": self.engine, "lacks": list(self.lacks)}


class Finish(StrEnum):
    """Why a generation ended: the turn was complete, the tokens ran out, or it was cancelled."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Usage:
    """How many tokens a turn took.

    Args:
        prompt_tokens: tokens of the prompt, cached ones included.
        completion_tokens: generated tokens, discarded ones included.
        forward_passes: forward passes of the model, those of the prompt included.
        reasoning_tokens: generated tokens inside the reasoning block.
        discarded_tokens: generated tokens that are not part of the reply: values that failed a
            check and were generated again, and tokens after the last call that the turn may have.
        cached_tokens: prompt tokens taken from the KV cache.
        drafted_tokens: tokens proposed by prompt lookup (speculative decoding).
        accepted_tokens: proposed tokens that the model confirmed.
    """

    prompt_tokens: int
    completion_tokens: int
    forward_passes: int
    reasoning_tokens: int = 0
    discarded_tokens: int = 0
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0

    def add_discarded(self, other: "Usage") -> "Usage":
        """Returns the usage with the tokens of another turn added as discarded ones.

        Args:
            other: the usage of that turn, which has the same prompt.
        """
        return replace(
            self,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            forward_passes=self.forward_passes + other.forward_passes,
            discarded_tokens=self.discarded_tokens + other.completion_tokens,
            drafted_tokens=self.drafted_tokens + other.drafted_tokens,
            accepted_tokens=self.accepted_tokens + other.accepted_tokens,
        )


@dataclass(frozen=True)
class Generation:
    """The decoded turn.

    Args:
        tokens: the generated ids, without the end token.
        text: the text of the tokens.
        events: those of the parser; if a stop text was found, only those that were sent.
        finish: why the turn ended.
        ended_at: the number of `events` before the tokens ran out and the shortest ending was
            written; None: the turn ended by itself, or was cut.
        stopped: the stop text that was found, if any. `tokens` and `text` include it, and perhaps
            text after it.
        is_ended_by_text: a text of the template has ended the turn, as an end token does. `tokens`
            and `text` include it.
        logprobs: one for each token, if requested; if a stop text was found, those that were sent.
        barred_calls: excluded calls that the turn began; it went back and continued without them.
        envelopes: the kinds of envelopes in which the model began calls that were delivered, in
            order.
        ended_values: the values that repeated themselves, and were ended.
        remote: the remote engine; None: the tokens were sampled here.
        resumed: the numbers of tokens at which another process continued the turn, because the
            one before had ended.
        timings: in seconds; ignored when generations are compared.
        trace: what decided each token, if requested; ignored when generations are compared.
    """

    tokens: tuple[int, ...]
    text: str
    events: tuple[Event, ...]
    finish: Finish
    usage: Usage
    ended_at: int | None = None
    stopped: str | None = None
    is_ended_by_text: bool = False
    logprobs: tuple[TokenDrawn, ...] = ()
    barred_calls: tuple[ToolCall, ...] = ()
    envelopes: tuple[EnvelopeKind, ...] = ()
    ended_values: tuple[EndedValue, ...] = ()
    remote: RemoteNote | None = None
    resumed: tuple[int, ...] = ()
    timings: Timings = field(default=Timings(), compare=False)
    trace: tuple[TracedToken, ...] = field(default=(), compare=False)
