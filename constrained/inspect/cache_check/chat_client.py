"""A client for Chat Completions that reads from replies how much of the prompt was cached."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from constrained.errors import RequestError
from constrained.inspect.chat_server import (
    KEY_HINT,
    NAME_HINT,
    REFUSED_KEY,
    ChatServer,
    HttpAnswer,
    WrongReply,
)
from grammars.schema.json_values import JsonObject

CACHED_TOKENS = "usage.prompt_tokens_details.cached_tokens"
CACHE_N = "timings.cache_n"
PROMPT_N = "timings.prompt_n"
_MAX_SHOWN = 300  # characters of an error
_UNUSABLE = (400, 404, 422, 500, 501)  # statuses for a refused shape; llama-server's templates: 500


class RefusedError(RequestError):
    """The server refuses a request, but may accept others."""


@dataclass(frozen=True)
class ChatReply:
    """What a reply reports about its prompt.

    Args:
        prompt_tokens: the number of prompt tokens; None: the reply does not have it.
        cached: how many of them were cached, by the field of the reply that says so.
        seconds: the time until the reply of one token was complete.
    """

    prompt_tokens: int | None
    cached: Mapping[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0


class ChatClient:
    """A client of one server.

    Args:
        url: of the server, with or without `/v1` or `/v1/chat/completions`.
        api_key: for the header Authorization; "": none.
        model: the server's name of the model; "": its only one.
        clock: returns seconds.

    Raises:
        RequestError: the URL is not an HTTP URL.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        model: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._server = ChatServer(url, api_key)
        self.base = self._server.base
        self.asked = 0
        """The number of requested chat completions."""
        self._clock = clock
        self.model = model or self._find_model()

    def ask(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> ChatReply:
        """Sends a conversation, which is answered with one token.

        Raises:
            RefusedError: the server refuses it.
            RequestError, DeadlineError: the server cannot be reached, or its reply is invalid.
        """
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        body |= {"max_tokens": 1, "temperature": 0, "stream": False}
        if tools:
            body["tools"] = tools
        self.asked += 1
        started = self._clock()
        answer = self._send("/v1/chat/completions", body)
        seconds = self._clock() - started
        if not _has_message(answer):
            raise RequestError(f"{self.base} answers without a message (at /choices/0/message)")
        return read_reply(answer, seconds)

    def find_template(self) -> JsonObject | None:
        """Returns the properties from `/props`, with the chat template; None: the server has
        none."""
        try:
            answer = self._send(f"/props?model={quote(self.model, safe='')}")
        except RequestError:
            return None
        return answer if isinstance(answer.get("chat_template"), str) else None

    def _find_model(self) -> str:
        names = self._server.list_models()
        if len(names) != 1:
            found = ", ".join(names[:20]) or "none"
            message = f"{self.base}/v1/models has {len(names)} models: {found}"
            raise RequestError(message, hint=NAME_HINT)
        return names[0]

    def _send(self, path: str, body: JsonObject | None = None) -> JsonObject:
        url = self.base + path
        answer = self._server.send(url, body)
        if answer.status != httpx.codes.OK:
            raise _explain(answer, url)
        try:
            return answer.read_json()
        except WrongReply as e:
            raise RequestError(f"{url} does not answer with a JSON object: {e}") from e


def _explain(answer: HttpAnswer, url: str) -> RequestError:
    said = answer.text.strip()[:_MAX_SHOWN] or httpx.codes.get_reason_phrase(answer.status)
    message = f"{url}: status {answer.status}: {said}"
    if answer.status in REFUSED_KEY:
        return RequestError(message, hint=KEY_HINT)
    if answer.status in _UNUSABLE:
        return RefusedError(message)
    return RequestError(message)


def read_reply(answer: JsonObject, seconds: float) -> ChatReply:
    """Reads from a reply how much of its prompt was cached: in the fields of OpenAI (also of vLLM
    and this project), of llama-server, and of Ollama.

    Args:
        answer: its JSON.
        seconds: its time.
    """
    usage, timings = _read_object(answer, "usage"), _read_object(answer, "timings")
    total = _read_count(usage, "prompt_tokens")
    if total is None:
        total = _read_count(answer, "prompt_eval_count")
    cached: dict[str, int] = {}
    counted = _read_count(_read_object(usage, "prompt_tokens_details"), "cached_tokens")
    if counted is not None:
        cached[CACHED_TOKENS] = counted
    reused, computed = _read_count(timings, "cache_n"), _read_count(timings, "prompt_n")
    if computed is not None and reused is not None:
        cached[CACHE_N] = reused
        total = total or reused + computed
    elif computed is not None and total is not None and total >= computed:
        cached[PROMPT_N] = total - computed
    return ChatReply(total, cached, seconds)


def _has_message(answer: JsonObject) -> bool:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    return isinstance(choices[0], dict) and isinstance(choices[0].get("message"), dict)


def _read_object(answer: JsonObject, key: str) -> JsonObject:
    value = answer.get(key)
    return value if isinstance(value, dict) else {}


def _read_count(answer: JsonObject, key: str) -> int | None:
    value = answer.get(key)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None
