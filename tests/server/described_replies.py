"""Replies of a running server, held against what its OpenAPI document says of them."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from fastapi import FastAPI

Json = dict[str, Any]
OF_THE_GATE = (403, 408)
"""Statuses that any request may get, and that no path names."""
NOT_JSON = ("text/plain", "application/jsonl")


class DescribedReplies:
    """Checks replies against a document. There is nothing in a reply but what is described.

    Args:
        document: the OpenAPI document.
    """

    def __init__(self, document: Json):
        self._paths: Json = document["paths"]
        self._components = close_objects(document["components"])
        self._patterns = {path: make_pattern(path) for path in self._paths}

    def check(self, response: httpx.Response) -> None:
        """A hook of httpx: the reply is checked when it was read to its end."""
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Checked(self, response)

    def check_whole(self, response: httpx.Response, data: bytes) -> None:
        """Checks a reply that was read to its end."""
        request = response.request
        operation = self._find_operation(request.method.lower(), request.url.path)
        if operation is None or response.status_code in OF_THE_GATE:
            return
        status = str(response.status_code)
        name = f"{request.method} {request.url.path}"
        assert status in operation["responses"], f"{name}: status {status} is not described"
        content: Json = operation["responses"][status]["content"]
        kind = response.headers["content-type"].partition(";")[0]
        assert kind in content, f"{name}: {kind} is not described for status {status}"
        if kind in NOT_JSON:
            return
        validator = self._make_validator(json.dumps(content[kind]["schema"]))
        for value in read_values(kind, data):
            errors = [f"{error.instance_path}: {error.message}" for error in validator(value)]
            assert not errors, f"{name}, status {status}: {errors[:3]}, in {value}"

    def _find_operation(self, method: str, path: str) -> Json | None:
        for candidate in (path, f"/v1{path}"):
            if candidate in self._paths:
                return self._paths[candidate].get(method)
        for described, pattern in self._patterns.items():
            if pattern.fullmatch(path):
                return self._paths[described].get(method)
        return None

    @cache  # noqa: B019  one for all servers of a test run
    def _make_validator(self, schema: str) -> Any:
        whole = {**json.loads(schema), "components": self._components}
        return jsonschema_rs.Draft202012Validator(whole).iter_errors


class _Checked(httpx.SyncByteStream):
    def __init__(self, described: DescribedReplies, response: httpx.Response):
        self._described = described
        self._response = response
        self._stream = response.stream

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._stream, httpx.SyncByteStream)
        parts: list[bytes] = []
        for part in self._stream:
            parts.append(part)
            yield part
        self._described.check_whole(self._response, b"".join(parts))

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
    if kind == "text/event-stream":
        lines = [line for line in data.splitlines() if line.startswith(b"data: ")]
        texts = [line.removeprefix(b"data: ") for line in lines]
        return [json.loads(text) for text in texts if text != b"[DONE]"]
    if kind == "application/x-ndjson":
        return [json.loads(line) for line in data.splitlines()]
    return [json.loads(data)]


def close_objects(value: Any) -> Any:
    """The schemas, with objects that have no members but those that are described."""
    if isinstance(value, list):
        return [close_objects(item) for item in value]
    if not isinstance(value, dict):
        return value
    closed = {name: close_objects(item) for name, item in value.items()}
    if closed.get("type") == "object" and "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


_known: dict[bool, DescribedReplies] = {}


def describe_replies(app: FastAPI) -> DescribedReplies:
    """The same for all applications whose documents are the same, which depend on no setting but
    the API keys (`test_openapi.py`): a document takes 0.2 s, and tests start hundreds of servers.
    """
    has_keys = bool(app.state.settings.api_keys)
    if has_keys not in _known:
        _known[has_keys] = DescribedReplies(app.openapi())
    return _known[has_keys]
