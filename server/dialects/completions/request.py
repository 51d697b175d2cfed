"""Completions: the request."""

from collections.abc import Sequence

from pydantic import Field

from constrained.job import Job
from server.dialects.chat.request import HARMLESS
from server.errors import HttpError
from server.turns.openai_fields import GenerationFields, find_ignored
from server.turns.request_lists import NumberLists, Numbers, Texts
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

DEFAULT_TOKENS = 16  # as OpenAI has it


class CompletionRequest(GenerationFields):
    """A request to /v1/completions."""

    prompt: str | Numbers | Texts | NumberLists
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
            case prompts:  # texts, or lists of ids: pydantic lets no mixture in
                return [prompt for prompt in prompts if not isinstance(prompt, int)]

    def read(self, service: Service) -> TurnRequest:
        """Reads what is asked for, for each of the prompts; its job has no messages.

        Raises:
            HttpError, Error: something in it cannot be; says where.
        """
        self._check(service)
        self.check_answer(service.settings)
        job = Job(
            messages=(),
            answer=self.read_answer(),
            cache_salt=self.cache_salt,
            cache_prompt=self.cache_prompt is not False,
        )
        max_tokens = self._read_max_tokens()
        generation = GenerationOptions(
            max_tokens=None if max_tokens == -1 else max_tokens,
            sampling=self.read_sampling_with(service.model),
            stop=self.read_stop(),
            logprobs=self.logprobs,
            choices=self.n or 1,
            progress=self.progress_wishes,
            ignore_eos=self.ignore_eos is True,
        )
        return TurnRequest(job, generation, ignored_fields=find_ignored(self.model_extra, HARMLESS))

    def _read_max_tokens(self) -> int:
        if self.n_predict is not None:
            return self.n_predict
        if self.max_tokens is None:
            return DEFAULT_TOKENS
        return self.max_tokens

    def _check(self, service: Service) -> None:
        choices = len(self.prompts) * (self.n or 1)
        most = service.settings.max_choices
        if self.suffix:
            message = "text cannot be inserted: give what stands in front of it"
            raise _refuse("/suffix", message)
        if self.best_of not in (None, self.n or 1):
            raise _refuse("/best_of", "replies are not compared: leave it out, or give n")
        if not self.prompts:
            raise _refuse("/prompt", "there is no prompt")
        if choices > most:
            raise _refuse(
                "/n", f"these are {choices} choices, the limit is {most}: raise --max-choices"
            )
        if self._read_max_tokens() == 0:
            raise _refuse("/max_tokens", "it has to be 1 or more")
        if self.echo and self.logprobs is not None:
            message = "prompts have no log probabilities here: leave echo or logprobs out"
            raise _refuse("/echo", message)


def _refuse(where: str, message: str) -> HttpError:
    return HttpError(400, message, "invalid_value", where=where)
