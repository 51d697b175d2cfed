"""Ollama's API: the requests.

The fields are those of Ollama's reference; others are ignored, and the reply names them.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from constrained.answers import read_response_format
from constrained.job import Job
from constrained.tools.shapes import read_policy
from grammars.turn import Answer
from server.errors import HttpError
from server.turns.fields.common_fields import CacheFields, RepetitionFields, ReplyChoiceFields
from server.turns.fields.openai_fields import SamplingFields, find_ignored, replace_given
from server.turns.fields.request_lists import Objects
from server.turns.offered_tools import OfferedTools, read_offered_tools
from server.turns.reasoning import Effort, ReasoningRequest
from server.turns.request_checks import UNREADABLE, check_size, renaming_place
from server.turns.request_completion import complete_request
from server.turns.service import Service
from server.turns.stable_prompts import normalise_messages
from server.turns.turn_request import GenerationOptions, TurnRequest

Json = dict[str, Any]
HARMLESS = frozenset(
    "num_keep num_batch num_gpu main_gpu num_thread use_mmap use_mlock numa low_vram "
    "vocab_only f16_kv".split()
)
"""Options that change nothing here, and are no reason to say so: how the model is loaded
was said when the server started."""
EFFORTS = {
    True: Effort.HIGH,
    False: Effort.NONE,
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "max": Effort.MAX,
}
FORMAT = "/response_format/json_schema/schema"
"""Where the library says that a mistake in the schema is."""


class ModelOptions(SamplingFields, RepetitionFields, ReplyChoiceFields):
    """Ollama's `options`: how tokens are drawn, and how many."""

    top_k: int | None = Field(None, ge=0)
    """Draw from so many of the likeliest tokens; 0: from all."""
    seed: int | None = None
    """The same seed draws the same tokens."""
    repeat_penalty: float | None = Field(None, gt=0)
    """Makes tokens less likely that came last; 1: does nothing."""
    repeat_last_n: int | None = Field(None, ge=-1)
    """How many of the last tokens `repeat_penalty` looks at; 0: none; -1: all."""
    num_predict: int | None = Field(None, ge=-2)
    """Tokens of the reply, at most; -1: any number; -2: as many as there is room for."""
    num_ctx: int | None = Field(None, ge=0)
    """The context is that of the server, whatever it says."""

    def read_generation(self, service: Service, logprobs: int | None) -> GenerationOptions:
        """How the reply is generated."""
        sampling = replace_given(
            self.read_sampling(service.model.sampling),
            repeat_penalty=self.repeat_penalty,
            penalty_last_n=self.repeat_last_n,
        )
        limit = self.num_predict
        if limit is not None and limit < 0:
            limit = None  # -1: any number; -2: as many as the context has room for
        if limit == 0:
            message = "it has to be 1 or more, or -1: any number"
            raise HttpError(400, message, "invalid_value", where="/options/num_predict")
        return GenerationOptions(
            max_tokens=limit,
            sampling=sampling,
            stop=self.read_stop(),
            logprobs=logprobs,
            choice=self.read_reply_choice(service.settings, "/options"),
        )

    def find_ignored(self, service: Service) -> Iterator[str]:
        """The options that are not followed, by name."""
        for name in find_ignored(self.model_extra, HARMLESS):
            yield f"options.{name}"
        # The context is that of the server. Less of it than there is does no harm.
        if self.num_ctx is not None and self.num_ctx > service.model.engine.context_length:
            yield "options.num_ctx"


class OllamaRequest(CacheFields):
    """The fields that /api/chat and /api/generate have in common."""

    model: str | None = ""
    """The name of a model, or one of its aliases; needed where the server has several."""
    format: Json | str | None = None
    """What the reply has to be: `json`, or a JSON schema."""
    options: ModelOptions | None = None
    """How tokens are drawn, and how many."""
    think: bool | Literal["low", "medium", "high", "max", ""] | None = None
    """Whether to think, or how hard."""
    stream: bool | None = None
    """false: the reply comes as a whole."""
    keep_alive: float | str | None = None
    """0 in a request without messages unloads the model; all else is a matter of the server."""
    logprobs: bool | None = None
    """The reply has the log probability of each token."""
    top_logprobs: int | None = Field(None, ge=0, le=20)
    """So many of the likeliest tokens come with each."""

    @property
    def _options(self) -> ModelOptions:
        return self.options or ModelOptions.model_construct()

    @property
    def is_streamed(self) -> bool:
        """Ollama streams unless it is told not to."""
        return self.stream is not False

    @property
    def unloads(self) -> bool:
        """True if it asks to unload the model at once. How long else it stays loaded is a matter of
        the server."""
        duration = str(self.keep_alive).rstrip("hmsn")  # units of Go
        return self.only_loads and duration != "" and not duration.strip("0.")

    @property
    @abstractmethod
    def only_loads(self) -> bool:
        """True if nothing is asked: Ollama loads the model then, and here it is loaded."""

    @abstractmethod
    def read(self, service: Service) -> TurnRequest:
        """Reads what is asked for.

        Raises:
            HttpError, Error: something in it cannot be; says where.
        """

    def make(
        self,
        service: Service,
        messages: Sequence[Json],
        tools: OfferedTools,
        tool_choice: str | Json | None = None,
    ) -> TurnRequest:
        """The request for a turn behind these messages."""
        kept, normalised = normalise_messages(messages, keep=service.settings.keep_volatile)
        job = Job(
            messages=kept,
            tools=tools.functions,
            tool_choice=tool_choice,
            answer=self.read_answer(service),
            max_repetition=self._options.read_max_repetition(service.settings, "/options"),
            prefill=bool(kept) and kept[-1].get("role") == "assistant",
            cache_salt=self.cache_salt,
            cache_prompt=self.cache_prompt is not False,
        )
        turn_request = TurnRequest(
            job,
            self.read_generation(service),
            reasoning=self._read_reasoning(),
            ignored_fields=self.find_ignored(service),
            normalised=normalised,
            tools=tools,
        )
        return complete_request(service, turn_request)

    def read_generation(self, service: Service) -> GenerationOptions:
        """How the reply is generated."""
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        return self._options.read_generation(service, logprobs)

    def find_ignored(self, service: Service) -> tuple[str, ...]:
        """The fields that are not followed, by name."""
        fields = find_ignored(self.model_extra, HARMLESS)
        return (*fields, *self._options.find_ignored(service))

    def read_answer(self, service: Service) -> Answer | None:
        """What `format` wants the reply to be; None: any text.

        Raises:
            HttpError, Error: it is neither "json" nor a schema that can be enforced.
        """
        match self.format:
            case None | "":
                return None
            case "json":
                return read_response_format({"type": "json_object"})
            case str(name):
                message = f'format {name[:100]!r} is not known: it is "json", or a JSON schema'
                raise HttpError(400, message, "invalid_value", where="/format")
            case schema:
                check_size(schema, service.settings, "/format")
                with renaming_place(FORMAT, "/format"):
                    return read_response_format(
                        {"type": "json_schema", "json_schema": {"schema": schema}}
                    )

    def _read_reasoning(self) -> ReasoningRequest:
        if self.think is None or self.think == "":
            return ReasoningRequest()
        return ReasoningRequest(EFFORTS[self.think])


class OllamaChatRequest(OllamaRequest):
    """A request to /api/chat."""

    messages: Objects | None = None
    """The conversation, its last message last; none: the model is loaded."""
    tools: Objects | None = None
    """What the model may call: functions, with a JSON schema of their arguments."""
    tool_choice: str | Json | None = None
    """`auto`, `none`, `required`, or the function that is to be called. Ollama does not know it,
    but some of its clients send it."""

    @property
    def only_loads(self) -> bool:
        return not self.messages

    def read(self, service: Service) -> TurnRequest:
        tools = read_offered_tools(self.tools or (), service.settings)
        choice = tools.translate_choice(self.tool_choice)
        read_policy(choice)  # a mistake in it is reported before one in the tools
        return self.make(service, read_messages(self.messages or ()), tools, choice)


class OllamaGenerateRequest(OllamaRequest):
    """A request to /api/generate."""

    prompt: str | None = None
    """What the user says; empty: the model is loaded."""
    system: str | None = None
    """What stands in front of it."""
    raw: bool | None = None
    """The prompt goes to the model as it is."""
    suffix: str | None = None
    """Is refused: text cannot be inserted here."""
    template: str | None = None
    """Is refused: the template is that of the model."""
    context: list[Any] | None = None
    """Is refused: conversations are for /api/chat."""
    images: list[Any] | None = None
    """Are refused: the model reads text."""

    @property
    def only_loads(self) -> bool:
        return not self.prompt

    def read(self, service: Service) -> TurnRequest:
        """The prompt as a message of the user; of a raw one, all but the prompt."""
        self._check()
        if self.raw:
            job = Job(
                messages=(),
                answer=self.read_answer(service),
                max_repetition=self._options.read_max_repetition(service.settings, "/options"),
                cache_salt=self.cache_salt,
                cache_prompt=self.cache_prompt is not False,
            )
            ignored = self.find_ignored(service)
            return TurnRequest(job, self.read_generation(service), ignored_fields=ignored)
        messages = [{"role": "user", "content": self.prompt or ""}]
        if self.system:
            messages.insert(0, {"role": "system", "content": self.system})
        return self.make(service, messages, OfferedTools())

    def _check(self) -> None:
        refused = {
            "suffix": "inserting text is not supported: leave it out",
            "template": "the template of the model is always used: leave it out, or send raw: true",
            "context": "tokens of earlier replies are not taken: send the messages to /api/chat",
            "images": f"an image {UNREADABLE}",
        }
        for name, message in refused.items():
            if getattr(self, name):
                raise HttpError(400, message, "unsupported_field", where=f"/{name}")


def read_messages(messages: Sequence[Json]) -> list[Json]:
    """Messages in OpenAI's form. Ollama's calls need no ids: a result belongs to the first call
    of its `tool_name` that has none yet.

    Raises:
        HttpError: a message has an image, calls that are no array, or a call without a function.
    """
    read: list[Json] = []
    waiting: list[tuple[str, str]] = []  # the ids and names of calls without a result
    for number, message in enumerate(messages):
        where = f"/messages/{number}"
        if message.get("images"):
            text = f"an image {UNREADABLE}"
            raise HttpError(400, text, "unsupported_content", where=f"{where}/images")
        kept = {key: value for key, value in message.items() if key != "images"}
        if kept.get("role") == "assistant":
            waiting = []
            calls = kept.pop("tool_calls", None) or []
            if not isinstance(calls, list):
                text = "tool_calls has to be an array"
                raise HttpError(400, text, "invalid_value", where=f"{where}/tool_calls")
            kept.setdefault("content", "")
            kept["tool_calls"] = []
            for index, call in enumerate(calls):
                id = f"call_{number}_{index}"
                kept["tool_calls"].append(_read_call(call, id, f"{where}/tool_calls/{index}"))
                waiting.append((kept["tool_calls"][-1]["id"], call["function"].get("name")))
            if not kept["tool_calls"]:
                del kept["tool_calls"]
        elif kept.get("role") == "tool":
            name = kept.pop("tool_name", None) or kept.get("name")
            id = kept.get("tool_call_id") or _find_call(waiting, name)
            if id is not None:
                kept["tool_call_id"] = id
                waiting = [call for call in waiting if call[0] != id]
        read.append(kept)
    return read


def _find_call(waiting: Sequence[tuple[str, str]], name: str | None) -> str | None:
    for id, called in waiting:
        if name in (None, called):
            return id
    return None


def _read_call(call: Any, id: str, where: str) -> Json:
    match call:
        case {"function": {"name": str(name), **function}}:
            function = {"name": name, "arguments": function.get("arguments") or {}}
            return {"id": call.get("id") or id, "type": "function", "function": function}
        case _:
            message = 'a call is {"function": {"name": ..., "arguments": {...}}}'
            raise HttpError(400, message, "invalid_value", where=where)
