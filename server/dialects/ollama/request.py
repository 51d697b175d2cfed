"""Ollama's API: the requests."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from constrained.prompt.answers import read_response_format
from constrained.prompt.job import Job
from constrained.prompt.messages import find_noted, write_note
from constrained.prompt.tools.shapes import read_policy
from grammars.schema.json_values import JsonObject
from grammars.turn import Answer
from server.errors import refuse
from server.turns.fields.common_fields import (
    ConfidenceFields,
    RefusedField,
    RepetitionFields,
    RequestFields,
)
from server.turns.fields.openai_fields import SamplingFields, replace_given
from server.turns.fields.request_lists import Objects
from server.turns.offered_tools import OfferedTools, read_offered_tools
from server.turns.reasoning import Effort, ReasoningRequest
from server.turns.request_checks import UNREADABLE, check_size, find_left_out, renaming_place
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

HARMLESS = frozenset(
    f"options.{name}"
    for name in (
        "num_keep num_batch num_gpu main_gpu num_thread use_mmap use_mlock numa low_vram "
        "vocab_only f16_kv"
    ).split()
)
"""Options without an effect here, which are not listed as ignored: options of loading the model,
which were given at the start of the server."""
REFUSED = {
    "template": RefusedField("the template of the model is always used: leave it out"),
    "raw": RefusedField("the template of the model is always used: send the prompt without it"),
    "context": RefusedField(
        "tokens of earlier replies are not accepted: send the messages to /api/chat"
    ),
    "images": RefusedField(f"an image {UNREADABLE}"),
    "suffix": RefusedField("text is not inserted between two others here: send the prompt alone"),
}
"""Fields of /api/generate that would make the reply another one."""
EFFORTS = {
    True: Effort.HIGH,
    False: Effort.NONE,
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "max": Effort.MAX,
}
FORMAT = "/response_format/json_schema/schema"  # the library's place of an error in the schema


class ModelOptions(SamplingFields, RepetitionFields, ConfidenceFields):
    """Ollama's `options`: the sampling, and the number of tokens."""

    top_k: int | None = Field(None, ge=0)
    """Sample from this number of the likeliest tokens; 0: from all."""
    seed: int | None = None
    """The same seed samples the same tokens."""
    repeat_penalty: float | None = Field(None, gt=0)
    """Lowers the probability of recent tokens; 1: no effect."""
    repeat_last_n: int | None = Field(None, ge=-1)
    """The number of recent tokens that `repeat_penalty` applies to; 0: none; -1: all."""
    num_predict: int | None = Field(None, ge=-2)
    """The maximum number of tokens of the reply; -1: no limit; -2: as many as fit into the
    context."""
    num_ctx: int | None = Field(None, ge=0)
    """Has no effect: the server has a fixed context length."""

    def read_generation(self, service: Service, logprobs: int | None) -> GenerationOptions:
        sampling = replace_given(
            self.read_sampling(service.model.sampling),
            repeat_penalty=self.repeat_penalty,
            penalty_last_n=self.repeat_last_n,
        )
        limit = self.num_predict
        if limit is not None and limit < 0:
            limit = None  # -1: no limit; -2: as many as fit into the context
        if limit == 0:
            raise refuse("it must be 1 or more, or -1 for no limit", "/options/num_predict")
        return GenerationOptions(
            max_tokens=limit,
            sampling=sampling,
            stop=self.read_stop(),
            logprobs=logprobs,
            confidence_policy=self.read_confidence_policy("/options"),
        )

    def find_ignored_options(self, service: Service) -> tuple[str, ...]:
        """Names known options without an effect. The server has a fixed context length; a request
        for a shorter one does no harm."""
        length = service.model.engine.context_length
        is_longer = self.num_ctx is not None and self.num_ctx > length
        return ("options.num_ctx",) if is_longer else ()


class OllamaRequest(RequestFields):
    """The common fields of /api/chat and /api/generate."""

    format: JsonObject | str | None = None
    """The form of the reply: `json`, or a JSON schema."""
    options: ModelOptions | None = None
    """The sampling, and the number of tokens."""
    think: bool | Literal["low", "medium", "high", "max", ""] | None = None
    """Whether to reason, or the effort of reasoning."""
    stream: bool | None = None
    """false: the reply comes as one object."""
    keep_alive: float | str | None = None
    """0 in a request without messages unloads the model; other values have no effect."""
    logprobs: bool | None = None
    """The reply has the log probability of each token."""
    top_logprobs: int | None = Field(None, ge=0, le=20)
    """The number of likely alternatives for each token."""

    harmless = HARMLESS

    @property
    def _options(self) -> ModelOptions:
        return self.options or ModelOptions.model_construct()

    @property
    def is_streamed(self) -> bool:
        """True unless `stream` is false, as in Ollama."""
        return self.stream is not False

    @property
    def unloads(self) -> bool:
        """True if it asks to unload the model at once. Otherwise, the server decides how long the
        model stays loaded."""
        duration = str(self.keep_alive).rstrip("hmsn")  # units of Go
        return self.only_loads and duration != "" and not duration.strip("0.")

    @property
    @abstractmethod
    def only_loads(self) -> bool:
        """True if the request is empty: Ollama then loads the model; here it is loaded already."""

    @abstractmethod
    def read(self, service: Service) -> TurnRequest:
        """Reads the request.

        Raises:
            HttpError, Error: a field is invalid; says which.
        """

    def make(
        self,
        service: Service,
        messages: Sequence[JsonObject],
        tools: OfferedTools,
        tool_choice: str | JsonObject | None = None,
    ) -> TurnRequest:
        job = Job(
            messages=messages,
            tools=tools.functions,
            tool_choice=tool_choice,
            answer=self.read_answer(service),
            max_repetition=self._options.read_max_repetition(service.settings, "/options"),
            prefill=bool(messages) and messages[-1].get("role") == "assistant",
            prefill_name="",
        )
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        reasoning = ReasoningRequest()
        if self.think is not None and self.think != "":
            reasoning = ReasoningRequest(EFFORTS[self.think])
        turn_request = TurnRequest(
            job,
            self._options.read_generation(service, logprobs),
            reasoning=reasoning,
            ignored_fields=self._options.find_ignored_options(service),
            tools=tools,
        )
        return self.complete(service, turn_request)

    def read_answer(self, service: Service) -> Answer | None:
        match self.format:
            case None | "":
                return None
            case "json":
                return read_response_format({"type": "json_object"})
            case str(name):
                message = f'format {name[:100]!r} is not known: it is "json", or a JSON schema'
                raise refuse(message, "/format")
            case schema:
                check_size(schema, service.settings, "/format")
                with renaming_place(FORMAT, "/format"):
                    return read_response_format(
                        {"type": "json_schema", "json_schema": {"schema": schema}}
                    )


class OllamaChatRequest(OllamaRequest):
    """A request to /api/chat."""

    messages: Objects | None = None
    """The conversation, in order; without one, the model is loaded."""
    tools: Objects | None = None
    """The functions that the model may call, with a JSON schema of their arguments."""
    tool_choice: str | JsonObject | None = None
    """`auto`, `none`, `required`, or the function to call. Ollama does not have this field, but
    some of its clients send it."""

    @property
    def only_loads(self) -> bool:
        return not self.messages

    def read(self, service: Service) -> TurnRequest:
        tools = read_offered_tools(self.tools or (), service.settings)
        choice = tools.translate_choice(self.tool_choice)
        read_policy(choice)  # reports errors in the choice before those in the tools
        return self.make(service, read_messages(self.messages or ()), tools, choice)

    def find_ignored(self) -> tuple[str, ...]:
        noted = find_noted([message.get("role") for message in self.messages or ()])
        left_out: list[str] = []
        for number, message in enumerate(self.messages or ()):
            if number in noted:
                left_out += find_left_out(message.get("content"), f"messages/{number}/content")
            if message.get("images"):
                left_out.append(f"messages/{number}/images")
        return (*super().find_ignored(), *left_out)


class OllamaGenerateRequest(OllamaRequest):
    """A request to /api/generate."""

    prompt: str | None = None
    """The user's message; empty: the model is loaded."""
    system: str | None = None
    """The system message."""

    refused = REFUSED

    @property
    def only_loads(self) -> bool:
        return not self.prompt

    def read(self, service: Service) -> TurnRequest:
        messages = [{"role": "user", "content": self.prompt or ""}]
        if self.system:
            messages.insert(0, {"role": "system", "content": self.system})
        return self.make(service, messages, OfferedTools())


def read_messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Converts messages to OpenAI's form. Ollama's calls need no ids: a result belongs to the first
    call of its `tool_name` that has none yet."""
    read: list[JsonObject] = []
    noted = find_noted([message.get("role") for message in messages])
    waiting: list[tuple[str, str]] = []  # the ids and names of calls without a result
    for number, message in enumerate(messages):
        where = f"/messages/{number}"
        if message.get("images") and number not in noted:
            raise refuse(f"an image {UNREADABLE}", f"{where}/images", "unsupported_content")
        kept = {key: value for key, value in message.items() if key != "images"}
        if message.get("images"):
            lines = [message.get("content"), write_note("image")["text"]]
            kept["content"] = "\n".join(line for line in lines if isinstance(line, str) and line)
        if kept.get("role") == "assistant":
            waiting = []
            calls = kept.pop("tool_calls", None) or []
            if not isinstance(calls, list):
                raise refuse("tool_calls must be an array", f"{where}/tool_calls")
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


def _read_call(call: Any, id: str, where: str) -> JsonObject:
    match call:
        case {"function": {"name": str(name), **function}}:
            function = {"name": name, "arguments": function.get("arguments") or {}}
            return {"id": call.get("id") or id, "type": "function", "function": function}
        case _:
            raise refuse('a call is {"function": {"name": ..., "arguments": {...}}}', where)
