"""Replies of a running server, held against the statuses and media types of its OpenAPI document,
and against the types that the SDKs have for them."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from fastapi import FastAPI
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import (
    InputTokenCountResponse,
    Response,
    ResponseItemList,
    ResponseStreamEvent,
)
from pydantic import TypeAdapter

Json = dict[str, Any]
OF_THE_GATE = (403, 408)
"""Statuses that any request may get, and that no path names."""
NOT_JSON = ("text/plain", "text/html")
STREAM = "text/event-stream"
REPLIES: dict[str, Any] = {
    "POST /v1/chat/completions": ChatCompletion,
    "POST /v1/responses": Response,
    "POST /v1/responses/input_tokens": InputTokenCountResponse,
    "GET /v1/responses/{id}": Response,
    "GET /v1/responses/{id}/input_items": ResponseItemList,
    "POST /v1/messages": Message | BetaMessage,
    "POST /v1/messages/count_tokens": MessageTokensCount,
    "GET /v1/models/{id}": Model,
}
"""The SDKs' types of whole replies, by method and path."""
EVENTS: dict[str, Any] = {
    "POST /v1/chat/completions": ChatCompletionChunk,
    "POST /v1/responses": ResponseStreamEvent,
    "POST /v1/messages": RawMessageStreamEvent | BetaRawMessageStreamEvent,
}
"""The SDKs' types of the data of events, by method and path."""


class TypedReplies:
    """Checks replies against a document, and against the types of the SDKs.

    Args:
        document: the OpenAPI document.
    """

    def __init__(self, document: Json):
        self._paths: Json = document["paths"]
        self._patterns = {path: make_pattern(path) for path in self._paths}

    def check(self, response: httpx.Response) -> None:
        """A hook of httpx: the reply is checked when it was read to its end."""
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Checked(self, response)

    def check_whole(self, response: httpx.Response, data: bytes) -> None:
        """Checks a reply that was read to its end."""
        request = response.request
        path = self._find_path(request.url.path)
        operation = self._paths.get(path, {}).get(request.method.lower())
        if operation is None or response.status_code in OF_THE_GATE:
            return
        name = f"{request.method} {path}"
        status = str(response.status_code)
        assert status in operation["responses"], f"{name}: status {status} is not described"
        kind = response.headers["content-type"].partition(";")[0]
        is_described = kind in operation["responses"][status]["content"]
        assert is_described, f"{name}: {kind} is not described for status {status}"
        if kind in NOT_JSON:
            return
        values = read_values(kind, data)
        types = EVENTS if kind == STREAM else REPLIES
        if status != "200" or name not in types:
            return
        for value in values:
            if is_read_by_type(value):
                make_validator(types[name]).validate_python(value)

    def _find_path(self, path: str) -> str:
        """The path of the document that a path stands for; of several, that without parameters."""
        for candidate in (path, f"/v1{path}"):
            if candidate in self._paths:
                return candidate
        for described, pattern in self._patterns.items():
            if pattern.fullmatch(path) or pattern.fullmatch(f"/v1{path}"):
                return described
        return path


class _Checked(httpx.SyncByteStream):
    def __init__(self, typed: TypedReplies, response: httpx.Response):
        self._typed = typed
        self._response = response
        self._stream = response.stream

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._stream, httpx.SyncByteStream)
        parts: list[bytes] = []
        for part in self._stream:
            parts.append(part)
            yield part
        self._typed.check_whole(self._response, b"".join(parts))

    def close(self) -> None:
        assert isinstance(self._stream, httpx.SyncByteStream)
        self._stream.close()


def make_pattern(path: str) -> "re.Pattern[str]":
    """The paths that a path of the document stands for."""
    return re.compile("".join(_spell(part) for part in re.split(r"(\{[^}]+\})", path)))


def _spell(part: str) -> str:
    if part == "{id}" or part == "{id:path}":
        return "[^/]+"
    return re.escape(part)


def read_values(kind: str, data: bytes) -> list[Any]:
    """The JSON values of a reply: one, that of each event, or that of each line."""
    if kind == STREAM:
        lines = [line for line in data.splitlines() if line.startswith(b"data: ")]
        texts = [line.removeprefix(b"data: ") for line in lines]
        return [json.loads(text) for text in texts if text != b"[DONE]"]
    if kind == "application/x-ndjson":
        return [json.loads(line) for line in data.splitlines()]
    return [json.loads(data)]


def is_read_by_type(value: Json) -> bool:
    """False for events of errors, which have codes of this server, and for signs of life."""
    if "id" in value:
        return True
    return "error" not in value and value.get("type") not in ("error", "ping", "response.failed")


@cache
def make_validator(kind: Any) -> TypeAdapter[Any]:
    """Making one takes up to a second."""
    return TypeAdapter(kind)


_known: dict[bool, TypedReplies] = {}


def type_replies(app: FastAPI) -> TypedReplies:
    """The same for all applications whose documents are the same, which depend on no setting but
    the API keys (`test_openapi.py`): a document takes 0.2 s, and tests start hundreds of servers.
    """
    has_keys = bool(app.state.settings.api_keys)
    if has_keys not in _known:
        _known[has_keys] = TypedReplies(app.openapi())
    return _known[has_keys]
