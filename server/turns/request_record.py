"""One record for each reply: the request, its cost and its result.

Log lines, OpenTelemetry spans and the histograms of `/metrics` are made from it.
"""

from dataclasses import dataclass
from typing import Any

from constrained.decode.request import Usage

CANCELLED, FAILED = "cancelled", "error"


@dataclass(frozen=True)
class Durations:
    """The phases of one reply in order, in seconds. To compile includes the wait for a thread."""

    compile: float = 0.0
    queue: float = 0.0
    prefill: float = 0.0
    generation: float = 0.0

    @property
    def total(self) -> float:
        return self.compile + self.queue + self.prefill + self.generation


@dataclass(frozen=True)
class RequestRecord:
    """One reply.

    Args:
        finish: why the turn ended; "cancelled" if the client stopped waiting, "error" if it failed.
        calls: name and outcome of each call: "valid", "unfit", "truncated".
        envelopes: the forms, other than the model's own, in which it began calls.
        prompt_hash: identifies the beginning that all prompts with these tools and system messages
            share; "" if nothing is shared.
        error: the code of the error; "" if there was none.
    """

    model: str
    format: str
    finish: str
    usage: Usage
    durations: Durations
    tools: int = 0
    calls: tuple[tuple[str, str], ...] = ()
    envelopes: tuple[str, ...] = ()
    prompt_hash: str = ""
    grammar_hash: str = ""
    repeated_calls: int = 0
    request_id: str = ""
    error: str = ""

    @property
    def is_finished(self) -> bool:
        return self.finish not in (FAILED, CANCELLED)

    @property
    def fields(self) -> dict[str, Any]:
        """The record as flat fields for a structured log; durations are called `compile_seconds`,
        ..."""
        shown: dict[str, Any] = {}
        for name, value in vars(self).items():
            match value:
                case Usage():
                    shown |= vars(value)
                case Durations():
                    for phase, seconds in vars(value).items():
                        shown[f"{phase}_seconds"] = round(seconds, 6)
                case _ if name == "calls":
                    shown[name] = [{"name": name, "outcome": outcome} for name, outcome in value]
                case _:
                    shown[name] = value
        return shown

    def __str__(self) -> str:
        end, usage, seconds = self.error or self.finish, self.usage, self.durations.generation
        speed = usage.completion_tokens / seconds if seconds else 0.0
        return (
            f"reply of {usage.completion_tokens} tokens ({end}) to {usage.prompt_tokens} "
            f"({usage.cached_tokens} cached) in {self.durations.prefill:.2f} + "
            f"{seconds:.2f} s, {speed:.1f} tokens/s"
        )
