"""Completions: the request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import Field

from constrained.prompt.job import Job
from server.dialects.chat.request import HARMLESS
from server.errors import refuse
from server.settings import Settings
from server.turns.fields.common_fields import RefusedField
from server.turns.fields.openai_fields import GenerationFields
from server.turns.fields.request_lists import NumberLists, Numbers, Texts, list_prompts
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

DEFAULT_TOKENS = 16  # OpenAI's default
NO_INSERTION = RefusedField("text is not inserted between two others here: send the prompt alone")
REFUSED = {"suffix": NO_INSERTION}
Prompt: TypeAlias = str | Sequence[int]
"""A text, or token ids."""


@dataclass(frozen=True)
class TextRequest:
    """A request that has been read.

    Args:
        turn_request: its job has no messages.
        prompts: the prompts to continue.
    """

    turn_request: TurnRequest
    prompts: Sequence[Prompt]


class CompletionRequest(GenerationFields):
    """A request to /v1/completions."""

    prompt: str | Numbers | Texts | NumberLists
    """One or more prompts, each a text or token ids."""
    max_tokens: int | None = Field(DEFAULT_TOKENS, ge=-1)
    """The maximum number of tokens of the reply; -1: as many as fit into the context."""
    best_of: int | None = None
    """Must be equal to `n`: replies are not compared here."""
    echo: bool | None = None
    """The reply begins with the prompt."""
    logprobs: int | None = Field(None, ge=0, le=20)
    """The reply has the log probability of each token, and this number of likely alternatives."""

    harmless = HARMLESS
    refused = REFUSED

    @property
    def prompts(self) -> Sequence[Prompt]:
        """Returns the prompts, each a text or token ids."""
        return list_prompts(self.prompt)

    def read(self, service: Service) -> TextRequest:
        """Reads the request for all of its prompts.

        Raises:
            HttpError, Error: a field is invalid; says which.
        """
        self._check(service)
        max_tokens = self._read_max_tokens()
        generation = GenerationOptions(
            max_tokens=None if max_tokens == -1 else max_tokens,
            sampling=self.read_sampling_with(service.model),
            stop=self.read_stop(),
            logprobs=self.logprobs,
            choices=self.n or 1,
            ignore_eos=self.ignore_eos is True,
        )
        turn_request = self._read_turn_request(service, generation)
        return TextRequest(turn_request, self.prompts)

    def _read_turn_request(self, service: Service, generation: GenerationOptions) -> TurnRequest:
        """Makes the request for the turns; its job has no messages."""
        self.check_answer(service.settings)
        job = Job(
            messages=(),
            answer=self.read_answer(),
            max_repetition=self.read_max_repetition(service.settings),
        )
        job = self.set_cache_scope(job)
        return TurnRequest(job, generation, ignored_fields=self.find_ignored())

    def _read_max_tokens(self) -> int:
        if self.n_predict is not None:
            return self.n_predict
        if self.max_tokens is None:
            return DEFAULT_TOKENS
        return self.max_tokens

    def _check(self, service: Service) -> None:
        if self.best_of not in (None, self.n or 1):
            raise refuse("not supported: leave it out, or use n", "/best_of")
        _check_choices(len(self.prompts), self.n or 1, service.settings)
        if self._read_max_tokens() == 0:
            raise refuse("it must be 1 or more", "/max_tokens")
        if self.echo and self.logprobs is not None:
            message = "log probabilities of prompts are not supported: leave echo or logprobs out"
            raise refuse(message, "/echo")


def _check_choices(prompts: int, choices: int, settings: Settings) -> None:
    """Refuses a request without prompts, or with too many choices for all prompts together.

    Raises:
        HttpError: names the field.
    """
    if not prompts:
        raise refuse("there is no prompt", "/prompt")
    count, max_choices = prompts * choices, settings.max_choices
    if count > max_choices:
        message = f"these are {count} choices, the limit is {max_choices}: raise --max-choices"
        raise refuse(message, "/n")
