"""A client for Chat Completions that returns the answers of a server unchanged."""

import json
from dataclasses import dataclass

import httpx

from constrained.errors import RequestError
from constrained.inspect.cache_check.chat_client import read_base_url
from constrained.inspect.cache_check.timed_http import send_in_time
from grammars.schema.json_values import JsonObject

TIMEOUT = 300
"""Seconds for a reply: a model on a small machine takes its time."""


class WrongReply(Exception):  # noqa: N818  what a server did, and no error of ours
    """A reply does not have the form of Chat Completions; the message says what is wrong."""


@dataclass(frozen=True)
class HttpAnswer:
    """What a server has answered.

    Args:
        status: of HTTP.
        text: the body.
    """

    status: int
    text: str

    def read_json(self) -> JsonObject:
        """Returns the body as a JSON object.

        Raises:
            WrongReply: it is not a JSON object.
        """
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError) as e:
            raise WrongReply(f"the body is not JSON: {self.text[:200]!r}") from e
        if not isinstance(value, dict):
            raise WrongReply(f"the body is not an object: {self.text[:200]!r}")
        return value

    def read_chunks(self) -> list[JsonObject]:
        """Returns the chunks of a stream.

        Raises:
            WrongReply: it is not a stream of JSON objects, or does not end with [DONE].
        """
        chunks: list[JsonObject] = []
        is_done = False
        for line in self.text.splitlines():
            if not line.startswith("data:"):
                continue
            data = line.removeprefix("data:").strip()
            if is_done:
                raise WrongReply(f"the stream continues after [DONE]: {data[:200]!r}")
            if data == "[DONE]":
                is_done = True
                continue
            chunks.append(HttpAnswer(self.status, data).read_json())
        if not is_done:
            raise WrongReply("the stream does not end with data: [DONE]")
        return chunks


class ChatServer:
    """A server with the API of Chat Completions.

    Args:
        url: of the server, with or without `/v1` or `/v1/chat/completions`.
        api_key: for the header Authorization; "": no header.
        model: the name of the model; "": the first one that the server lists.

    Raises:
        RequestError: the URL is not an HTTP URL, or the server does not list its models.
    """

    def __init__(self, url: str, *, api_key: str, model: str):
        base = read_base_url(url)
        self.url = f"{base}/v1/chat/completions"
        # A connection each: a server may close one that is kept just when it is used again.
        headers = {"Connection": "close"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # Without redirects and without the proxy of the environment: the key is for this server.
        self._client = httpx.Client(headers=headers, trust_env=False)
        self.model = model or self._find_model(f"{base}/v1/models")

    def __enter__(self) -> "ChatServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, body: JsonObject) -> HttpAnswer:
        """Sends a chat completion request, and returns the answer.

        Raises:
            RequestError: the server cannot be reached, or its answer cannot be read.
            DeadlineError: the answer takes too long.
        """
        return self._send(self.url, body)

    def _find_model(self, url: str) -> str:
        answer = self._send(url)
        hint = "Name the model with --model"
        if answer.status in (401, 403):
            hint = "Give the key with --api-key or LLAMA_API_KEY"
        if answer.status != httpx.codes.OK:
            raise RequestError(f"{url}: status {answer.status}: {answer.text[:200]}", hint=hint)
        try:
            return answer.read_json()["data"][0]["id"]
        except (WrongReply, LookupError, TypeError) as e:
            raise RequestError(f"{url} lists no models", hint=hint) from e

    def _send(self, url: str, body: JsonObject | None = None) -> HttpAnswer:
        reply = send_in_time(self._client, url, body, seconds=TIMEOUT)
        return HttpAnswer(reply.status, reply.text)
