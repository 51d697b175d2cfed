"""llama-server's completion and infill: the requests.

The fields are those of llama-server's reference; others are ignored, and the reply lists them.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from constrained.vocabulary.vocabulary import Vocabulary
from server.dialects.completions.fill_in import encode_text, join_fill_in
from server.dialects.completions.request import (
    Prompt,
    TextRequest,
    check_choices,
    read_text_request,
)
from server.errors import HttpError
from server.turns.fields.openai_fields import GenerationFields, replace_given
from server.turns.fields.request_lists import Texts
from server.turns.progress import ProgressOptions
from server.turns.request_checks import UNREADABLE
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

REPOSITORY = "myproject\n"
FILE = "filename\n"
SNIPPET = "\n\n--- snippet ---\n\n"
"""llama-server's names for a repository and files that a request does not name."""


class NativeFields(GenerationFields):
    """The common fields of completion and infill."""

    max_tokens: int | None = Field(None, ge=-1)
    """The maximum number of tokens of the reply; -1: as many as fit into the context."""
    n_cmpl: int | None = Field(None, ge=1)
    """The number of completions of each prompt."""
    n_probs: int | None = Field(None, ge=0, le=20)
    """The reply has the probability of each token, and this number of likely alternatives."""
    post_sampling_probs: bool | None = None
    """Refused: probabilities are those before sampling."""
    repeat_last_n: int | None = Field(None, ge=-1)
    """The number of recent tokens that `repeat_penalty` applies to; 0: none; -1: all."""
    return_tokens: bool | None = None
    """The reply has the ids of its tokens."""
    response_fields: Texts | None = None
    """The fields of the reply; a name with slashes is one inside another field."""

    @property
    def choices(self) -> int:
        """Returns the number of completions of each prompt."""
        return self.n_cmpl or self.n or 1

    def read_text(self, service: Service, prompts: Sequence[Prompt]) -> TurnRequest:
        """Makes a request that continues these prompts.

        Raises:
            HttpError, Error: a field is invalid; says which.
        """
        check_choices(len(prompts), self.choices, service.settings)
        if self.post_sampling_probs:
            message = "probabilities are those of the model, before sampling: leave it out"
            raise HttpError(400, message, "unsupported_field", where="/post_sampling_probs")
        progress_options = ProgressOptions(
            prompt=self.stream is True and self.return_progress is True,
            timings=self.stream is True and self.timings_per_token is True,
            tokens=self.stream is True or self.return_tokens is True,
        )
        sampling = self.read_sampling_with(service.model)
        generation = GenerationOptions(
            max_tokens=self._read_max_tokens(service),
            sampling=replace_given(sampling, penalty_last_n=self.repeat_last_n),
            stop=self.read_stop(),
            logprobs=self.n_probs or None,
            choices=self.choices,
            progress=progress_options,
            ignore_eos=self.ignore_eos is True,
        )
        return read_text_request(self, generation, service)

    def _read_max_tokens(self, service: Service) -> int | None:
        given = (("n_predict", self.n_predict), ("max_tokens", self.max_tokens))
        for name, count in given:
            if count == 0:
                message = "it must be 1 or more, or -1: as many as fit into the context"
                raise HttpError(400, message, "invalid_value", where=f"/{name}")
            if count is not None:
                return None if count == -1 else count
        return service.settings.max_tokens


class NativeCompletionRequest(NativeFields):
    """A request to /completion."""

    prompt: Any
    """One or more prompts, each a text, or token ids and texts."""

    def read(self, service: Service) -> TextRequest:
        """Reads the request for all of its prompts.

        Raises:
            HttpError, Error: a field is invalid; says which.
        """
        prompts = _read_prompts(self.prompt, service.model.engine.vocabulary)
        return TextRequest(self.read_text(service, prompts), prompts)


class ExtraText(BaseModel):
    """A further text, such as another file."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    text: str
    """The text."""
    filename: str | None = None
    """Its name."""


class InfillRequest(NativeFields):
    """A request to /infill."""

    input_prefix: str
    """The text before the insertion."""
    input_suffix: str
    """The text after the insertion."""
    input_extra: list[ExtraText] | None = Field(None, max_length=1000)
    """Further texts, such as other files."""
    prompt: str | None = None
    """The end of the prefix."""

    def read(self, service: Service) -> TextRequest:
        """Reads the request.

        Raises:
            HttpError, Error: a field is invalid, or the model does not support infill.
        """
        prompt = write_infill_prompt(self, service.model.engine.vocabulary)
        return TextRequest(self.read_text(service, [prompt]), [prompt])


def write_infill_prompt(body: InfillRequest, vocabulary: Vocabulary) -> list[int]:
    """Writes the prompt for the text between prefix and suffix in llama-server's form: other texts
    first; `prompt` is the end of the prefix. Names of special tokens in the texts are text.

    Raises:
        HttpError: the model does not support infill, or a text has a lone surrogate.
    """
    special = vocabulary.fill_in
    if special is None:
        message = "infill is not supported by this model: it has no tokens for prefix and suffix"
        raise HttpError(501, message, "not_implemented")
    tokens = [] if vocabulary.bos is None else [vocabulary.bos]

    def add(text: str, where: str) -> None:
        tokens.extend(encode_text(text, vocabulary, where))

    if special.repository is not None:
        tokens.append(special.repository)
        add(REPOSITORY, "")
    for number, extra in enumerate(body.input_extra or ()):
        where = f"/input_extra/{number}"
        if special.file is None:
            add(SNIPPET, where)
        else:
            tokens.append(special.file)
            add(f"{extra.filename or 'tmp'}\n", f"{where}/filename")
        add(extra.text, f"{where}/text")
    if special.file is not None:
        tokens.append(special.file)
        add(FILE, "")
    prefix = encode_text(body.input_prefix + (body.prompt or ""), vocabulary, "/input_prefix")
    suffix = encode_text(body.input_suffix, vocabulary, "/input_suffix")
    return tokens + join_fill_in(special, prefix, suffix)


def _read_prompts(given: Any, vocabulary: Vocabulary) -> list[Prompt]:
    """Reads the prompts: a list of token ids, also mixed with texts, is one prompt, other lists are
    several."""
    if not isinstance(given, list) or any(_is_token(item) for item in given):
        return [_read_prompt(given, vocabulary, "/prompt")]
    prompts = list[Prompt]()
    for number, item in enumerate(given):
        prompts.append(_read_prompt(item, vocabulary, f"/prompt/{number}"))
    return prompts


def _read_prompt(given: Any, vocabulary: Vocabulary, where: str) -> Prompt:
    match given:
        case str():
            return given
        case {"prompt_string": str(text)}:
            if given.get("multimodal_data"):
                place = f"{where}/multimodal_data"
                raise HttpError(400, f"it {UNREADABLE}", "unsupported_content", where=place)
            return text
        case [_, *_]:
            return _join_parts(given, vocabulary, where)
        case _:
            message = "a prompt is a text, or a list of token ids and texts"
            raise HttpError(400, message, "invalid_value", where=where)


def _join_parts(parts: Sequence[Any], vocabulary: Vocabulary, where: str) -> list[int]:
    """Returns the tokens of a prompt of ids and texts; names of special tokens in the texts are
    these tokens."""
    tokens = list[int]()
    for number, part in enumerate(parts):
        if _is_token(part):
            tokens.append(part)
            continue
        place = f"{where}/{number}"
        if not isinstance(part, str):
            message = "it is neither a token id nor text"
            raise HttpError(400, message, "invalid_value", where=place)
        if number == 0 and vocabulary.bos is not None:
            tokens.append(vocabulary.bos)
        try:
            tokens += vocabulary.encode_special(part, inside=number > 0)
        except UnicodeEncodeError as error:
            message = "the text has a lone surrogate"
            raise HttpError(400, message, "invalid_value", where=place) from error
    return tokens


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
