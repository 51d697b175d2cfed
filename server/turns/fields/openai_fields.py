"""Fields with the same meaning in OpenAI's Chat Completions and Responses. Those that OpenAI does
not have come from llama-server, vLLM and OpenRouter."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from constrained.engine.sampling import SEEDS, Sampling
from server.turns.fields.common_fields import Fields
from server.turns.fields.request_lists import Texts
from server.turns.reasoning import Effort, EffortField, ReasoningRequest

ANSWERS = (
    "response_format", "json_schema", "grammar", "regex", "choice", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar",
)  # fmt: skip
"""Fields that define the form of the reply."""


class PromptCacheOptions(Fields):
    """OpenAI's options of its cache. They have no effect: the cached part of a prompt is always
    reused."""

    mode: str | None = None
    """Has no effect."""
    ttl: str | None = None
    """Has no effect."""


class ReasoningOptions(Fields):
    """OpenRouter's and Responses' form of the effort."""

    effort: EffortField = None
    """The effort of reasoning."""
    max_tokens: int | None = Field(None, ge=0)
    """The maximum number of reasoning tokens; takes precedence over the effort."""
    enabled: bool | None = None
    """false: no reasoning."""


class Thinking(Fields):
    """The switch of reasoning of several vendors."""

    type: str | None = None
    """`enabled` or `disabled`; other values leave it to the model."""
    budget_tokens: int | None = Field(None, ge=0)
    """The maximum number of reasoning tokens."""

    @property
    def is_enabled(self) -> bool | None:
        """Whether there is reasoning; None: the request does not say."""
        return {"enabled": True, "disabled": False}.get(self.type or "")


def read_reasoning_request(
    options: ReasoningOptions | None,
    effort: Effort | None = None,
    budgets: Sequence[int | None] = (),
) -> ReasoningRequest:
    """Reads the reasoning that a request asks for; its `reasoning_effort` takes precedence over its
    `reasoning`. Of the budgets in the fields of several servers, in tokens, the first given one
    counts. Negative: no limit."""
    if options is not None:
        effort = effort or options.effort
        budgets = (*budgets, options.max_tokens)
        if effort is None and options.enabled is not None:
            effort = Effort.MEDIUM if options.enabled else Effort.NONE
    for budget in budgets:
        if budget is not None and budget >= 0:
            return ReasoningRequest(effort, budget)
    return ReasoningRequest(effort)


def read_seed(given: int | None) -> int | None:
    """Returns the seed; None: any, which is also what llama-server's -1 means."""
    return given % SEEDS if given is not None and given >= 0 else None


class SamplingFields(Fields):
    """Fields for the sampling of tokens, and for the end of the text."""

    temperature: float | None = Field(None, ge=0)
    """The randomness of sampling; 0: always the likeliest token. Default: that of the model."""
    top_p: float | None = Field(None, ge=0, le=1)
    """Sample from the likeliest tokens with this total probability."""
    top_k: int | None = Field(None, ge=-1)
    """Sample from this number of the likeliest tokens; 0 or -1: from all."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Sample from tokens with at least this fraction of the likeliest token's probability."""
    seed: int | None = None
    """The same seed samples the same tokens; -1: a random seed."""
    stop: str | Texts | None = None
    """One or more texts at which the reply ends; they are not part of the reply."""
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    """Lowers the probability of tokens that have occurred already."""
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    """Lowers the probability of tokens for each time that they have occurred."""

    def read_sampling(self, default: Sampling) -> Sampling:
        return replace_given(
            default,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=0 if self.top_k == -1 else self.top_k,  # vLLM's -1 means all tokens
            min_p=self.min_p,
            seed=read_seed(self.seed),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
        )

    def read_stop(self) -> tuple[str, ...]:
        """Returns the stop texts; an empty text instead of a list means none, as in
        llama-server."""
        if not self.stop:
            return ()
        if isinstance(self.stop, str):
            return (self.stop,)
        return tuple(self.stop)


def replace_given(sampling: Sampling, **fields: Any) -> Sampling:
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(sampling, **given)
