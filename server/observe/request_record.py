"""One record for each reply: what was asked, what it took, what came of it.

The line of the log, the span of OpenTelemetry and the histograms of `/metrics` are made of it.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any

from constrained.trace.turn_trace import FAILED

CANCELLED = "cancelled"


@dataclass(frozen=True)
class Durations:
    """Seconds of one reply, in the order in which they pass.

    Args:
        compile: prompt and grammar, the wait for a thread included.
        queue: until a sequence was free.
        prefill: until the first token was drawn.
        generation: until the turn was over.
    """

    compile: float = 0.0
    queue: float = 0.0
    prefill: float = 0.0
    generation: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.compile + self.queue + self.prefill + self.generation


@dataclass(frozen=True)
class RequestRecord:
    """One reply.

    Args:
        model: what the client calls it.
        format: wire format of the calls.
        finish: why the turn ended; "cancelled" if nobody waited for it any more, "error" if it has
            failed.
        prompt_tokens: tokens of the prompt.
        cached_tokens: those of them that were read from the cache.
        completion_tokens: tokens that were generated.
        reasoning_tokens: those of them that are reasoning.
        discarded_tokens: those of them that were thrown away.
        drafted_tokens: tokens that were drafted.
        accepted_tokens: those of them that are part of the turn.
        forward_passes: decodes of the model.
        durations: what it took.
        tools: how many were offered.
        calls: name and outcome of each call: "valid", "unfit", "truncated".
        prompt_hash: names what all prompts with these tools and system messages begin with; "" if
            nothing of the prompt is shared.
        grammar_hash: names the grammar; "" if there is none.
        lost_prefix: the part of the request that has changed in front; "" if none has.
        repeated_calls: how many calls the conversation has again and again.
        request_id: as in the header `x-request-id`.
        error: the code of the error that it has failed with; "" if it has not.
    """

    model: str
    format: str
    finish: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    discarded_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    forward_passes: int
    durations: Durations
    tools: int = 0
    calls: tuple[tuple[str, str], ...] = ()
    prompt_hash: str = ""
    grammar_hash: str = ""
    lost_prefix: str = ""
    repeated_calls: int = 0
    request_id: str = ""
    error: str = ""

    @property
    def is_finished(self) -> bool:
        """True if the client has got the reply."""
        return self.finish not in (FAILED, CANCELLED)

    @property
    def tokens_per_second(self) -> float:
        """Of the generation."""
        seconds = self.durations.generation
        return self.completion_tokens / seconds if seconds else 0.0

    @property
    def fields(self) -> dict[str, Any]:
        """The record flat, as a structured log has it; durations as `compile_seconds`, ..."""
        shown: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, Durations):
                for name, seconds in asdict(value).items():
                    shown[f"{name}_seconds"] = round(seconds, 6)
            elif part.name == "calls":
                shown["calls"] = [{"name": name, "outcome": outcome} for name, outcome in value]
            else:
                shown[part.name] = value
        return shown

    def __str__(self) -> str:
        end = self.error or self.finish
        return (
            f"reply of {self.completion_tokens} tokens ({end}) to {self.prompt_tokens} "
            f"({self.cached_tokens} cached) in {self.durations.prefill:.2f} + "
            f"{self.durations.generation:.2f} s, {self.tokens_per_second:.1f} tokens/s"
        )
