"""Completions: the request."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from server.dialects.chat.request import HARMLESS, ChatRequest
from server.errors import HttpError
from server.turns.openai_fields import GenerationFields
from server.turns.turn_request import Asked, Service

Json = dict[str, Any]
DEFAULT_TOKENS = 16  # as OpenAI has it
OWN = ("model", "n_predict", "stream", "stream_options")
SHARED = tuple(name for name in GenerationFields.model_fields if name not in OWN)
"""Fields that mean the same in Chat Completions."""


class CompletionRequest(GenerationFields):
    """A request to /v1/completions."""

    prompt: str | list[int] | list[str] | list[list[int]]
    max_tokens: int | None = Field(DEFAULT_TOKENS, ge=-1)
    best_of: int | None = None
    suffix: str | None = None
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=20)

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
