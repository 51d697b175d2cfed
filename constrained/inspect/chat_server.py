"""A server with the API of Chat Completions, which `suite` and `eval` ask over HTTP."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from constrained.errors import DeadlineError, RequestError
from grammars.schema.json_values import JsonObject

TIMEOUT = 300
"""Seconds without a byte of a reply: a model on a small machine takes its time."""
NAME_HINT = "Name the model with --model"
KEY_HINT = "Give the key with --api-key or LLAMA_API_KEY"
REFUSED_KEY = (401, 403)
_ENDINGS = ("/chat/completions", "/v1")


class WrongReply(Exception):  # noqa: N818  what a server did, and no error of ours
    """A reply does not have the form of Chat Completions; the message says what is wrong."""


@dataclass(frozen=True)
class HttpAnswer:
    """What a server has answered: the status of HTTP, and the body."""

    status: int
    text: str

    def read_json(self) -> JsonObject:
        """Returns the body as a JSON object; a WrongReply if it is none."""
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError) as e:
            raise WrongReply(f"the body is not JSON: {self.text[:200]!r}") from e
        if not isinstance(value, dict):
            raise WrongReply(f"the body is not an object: {self.text[:200]!r}")
        return value

    def read_chunks(self) -> list[JsonObject]:
        """Returns the chunks of a stream; a WrongReply if it is not one of JSON objects that ends
        with [DONE]."""
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

    Attributes:
        base: the URL without the path of the API.

    Raises:
        RequestError: the URL is not an HTTP URL.
    """

    def __init__(self, url: str, api_key: str = ""):
        self.base = _read_base_url(url)
        # A connection each: a server may close one that is kept just when it is used again.
        headers = {"Connection": "close"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # Without redirects and without the proxy of the environment: the key is for this server.
        self._client = httpx.Client(headers=headers, trust_env=False, timeout=TIMEOUT)

    @property
    def url(self) -> str:
        return f"{self.base}/v1/chat/completions"

    def ask(self, body: JsonObject) -> HttpAnswer:
        """Sends a request for a chat completion; raises as `send` does."""
        return self.send(self.url, body)

    def list_models(self) -> Sequence[str]:
        """Returns the names of its models; a RequestError if it does not list them."""
        url = f"{self.base}/v1/models"
        answer = self.send(url)
        if answer.status != httpx.codes.OK:
            hint = KEY_HINT if answer.status in REFUSED_KEY else NAME_HINT
            raise RequestError(f"{url}: status {answer.status}: {answer.text[:200]}", hint=hint)
        try:
            return [str(model["id"]) for model in answer.read_json()["data"]]
        except (WrongReply, LookupError, TypeError) as e:
            raise RequestError(f"{url} lists no models", hint=NAME_HINT) from e

    def send(self, url: str, body: JsonObject | None = None) -> HttpAnswer:
        """Sends a request, a POST with a body, else a GET, and returns the answer.

        Raises:
            RequestError: the server cannot be reached.
            DeadlineError: it is silent for too long.
        """
        method = "GET" if body is None else "POST"
        try:
            answer = self._client.request(method, url, json=body)
        except httpx.TimeoutException as e:
            raise DeadlineError(f"{url} took more than {TIMEOUT} s") from e
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            hint = "Start the server, and check host and port"
            raise RequestError(f"{url} cannot be reached: {e}", hint=hint) from e
        return HttpAnswer(answer.status_code, answer.content.decode("utf-8", "replace"))


def _read_base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        hint = "Name a server, such as http://127.0.0.1:8080"
        raise RequestError(f"{url!r} is not an HTTP URL", hint=hint)
    base = url.partition("?")[0].rstrip("/")
    for ending in _ENDINGS:
        base = base.removesuffix(ending)
    return base
