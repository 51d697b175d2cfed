"""Mistral's fill-in-the-middle: the request."""

from pydantic import Field

from server.dialects.completions.fill_in import write_fill_in_prompts, write_plain_prompt
from server.dialects.completions.request import TextRequest, check_choices, read_text_request
from server.turns.fields.openai_fields import GenerationFields, find_token_limit
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions


class FillInRequest(GenerationFields):
    """A request to /v1/fim/completions."""

    prompt: str
    """The text before the insertion."""
    suffix: str | None = None
    """The text after the insertion; without it, the reply continues the prompt. The model needs
    tokens for such prompts. Names of special tokens in both texts are plain text."""
    max_tokens: int | None = Field(None, ge=1)
    """The maximum number of tokens of the reply."""

    def read(self, service: Service) -> TextRequest:
        """Reads the request.

        Raises:
            HttpError, Error: a field is invalid, or the model cannot insert text; says which.
        """
        choices = self.n or 1
        check_choices(1, choices, service.settings)
        generation = GenerationOptions(
            max_tokens=find_token_limit(
                self.max_tokens, self.n_predict, service.settings.max_tokens
            ),
            sampling=self.read_sampling_with(service.model),
            stop=self.read_stop(),
            choices=choices,
            progress=self.progress_options,
            ignore_eos=self.ignore_eos is True,
        )
        turn_request = read_text_request(self, generation, service)
        vocabulary = service.model.engine.vocabulary
        if self.suffix:
            prompts = write_fill_in_prompts([self.prompt], self.suffix, vocabulary)
        else:
            prompts = [write_plain_prompt(self.prompt, vocabulary)]
        return TextRequest(turn_request, prompts)
