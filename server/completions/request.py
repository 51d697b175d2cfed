"""Completions: the request."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from server.asking import Asked, Service
from server.chat.request import HARMLESS, ChatRequest, StreamOptions, StructuredOutputs
from server.errors import HttpError

Json = dict[str, Any]
DEFAULT_TOKENS = 16  # as OpenAI has it
SHARED = (
    "response_format json_schema structured_outputs grammar regex choice temperature top_p top_k "
    "min_p seed stop n logit_bias presence_penalty frequency_penalty repeat_penalty "
    "repetition_penalty"
).split()
"""Fields that mean the same in Chat Completions."""


class CompletionRequest(BaseModel):
    """A request to /v1/completions."""

    model_config = ConfigDict(extra="allow")

    prompt: str | list[int] | list[str] | list[list[int]]
    model: str = ""
    max_tokens: int | None = Field(DEFAULT_TOKENS, ge=-1)
    n_predict: int | None = Field(None, ge=-1)
    best_of: int | None = None
    suffix: str | None = None
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=20)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: Json | None = None
    json_schema: Json | None = None
    structured_outputs: StructuredOutputs | None = None
    grammar: str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    min_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int | None = Field(None, ge=1)
    logit_bias: dict[str, float] | None = None
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repeat_penalty: float | None = Field(None, gt=0)
    repetition_penalty: float | None = Field(None, gt=0)

    @property
    def shows_usage(self) -> bool:
        """Does a stream end with the usage?"""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def prompts(self) -> Sequence[str | Sequence[int]]:
        """The prompts, each a text or token ids."""
        match self.prompt:
            case str() as text:
                return [text]
            case [int(), *_] as tokens:
                return [[token for token in tokens if isinstance(token, int)]]
            case prompts:
                return [prompt for prompt in prompts if not isinstance(prompt, int)]

    def read(self, service: Service) -> Asked:
        """What it asks, for each of the prompts.

        Raises:
            HttpError, Error: something in it cannot be; says where.
        """
        self._check(service)
        chat = ChatRequest(
            messages=[{"role": "user", "content": ""}],
            max_tokens=self._read_max_tokens(),
            logprobs=self.logprobs is not None,
            top_logprobs=self.logprobs,
            **{name: getattr(self, name) for name in SHARED},
        )
        ignored = tuple(name for name in self.model_extra or () if name not in HARMLESS)
        return replace(chat.read(service), ignored=ignored)

    def _read_max_tokens(self) -> int:
        if self.n_predict is not None:
            return self.n_predict
        return DEFAULT_TOKENS if self.max_tokens is None else self.max_tokens

    def _check(self, service: Service) -> None:
        most, choices = service.settings.max_choices, len(self.prompts) * (self.n or 1)
        faults = {
            "/suffix": self.suffix and "text cannot be inserted: give what stands in front of it",
            "/best_of": self.best_of not in (None, self.n or 1)
            and "replies are not compared: leave it out, or give n",
            "/prompt": not self.prompts and "there is no prompt",
            "/n": choices > most and f"these are {choices} choices, this server gives {most}",
            "/max_tokens": self._read_max_tokens() == 0 and "it has to be 1 or more",
            "/echo": self.echo
            and self.logprobs is not None
            and "prompts have no log probabilities here: leave echo or logprobs out",
        }
        for where, message in faults.items():
            if message:
                raise HttpError(400, message, "invalid_value", where)
