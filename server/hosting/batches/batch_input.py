"""The lines of a batch, in OpenAI's format: JSON Lines in, JSON Lines out.

https://platform.openai.com/docs/api-reference/batch/request-input
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grammars.schema.json_values import JsonObject
from server.errors import HttpError, cut_middle, refuse
from server.http.ids import make_id
from server.http.json_body import read_json
from server.settings import Settings

ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
)
"""The endpoints that a line may name; Anthropic's is an extension."""
MAX_LINES = 50_000  # as OpenAI has it
MAX_FAULTS = 100  # reported faults
MAX_FAULT_LENGTH = 500  # characters of each fault's message
MAX_ID_LENGTH = 512  # characters of a custom_id


@dataclass(frozen=True)
class BatchLine:
    """One request of a batch.

    Args:
        number: the number of its line, from 1.
        custom_id: the client's own id for it.
        url: the path of its endpoint.
        body: the request, as JSON.
        is_streamed: the request asks for a stream.
    """

    number: int
    custom_id: str
    url: str
    body: bytes = field(repr=False)
    is_streamed: bool = False


@dataclass(frozen=True)
class LineFault:
    """A fault in a line of the input. A batch with any fault does not start.

    Args:
        code: the kind of fault, for programs.
        message: what is wrong.
        line: its number, from 1; None: the whole file.
        param: the field, or None.
    """

    code: str
    message: str
    line: int | None = None
    param: str | None = None

    def describe(self) -> JsonObject:
        """Returns the fault in OpenAI's form."""
        return {
            "code": self.code,
            "message": self.message,
            "line": self.line,
            "param": self.param,
        }

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class BatchInput:
    """The lines of a file, and its faults."""

    lines: tuple[BatchLine, ...]
    faults: tuple[LineFault, ...]


def read_lines(
    lines: Iterable[bytes],
    endpoint: str | None = None,
    *,
    max_lines: int = MAX_LINES,
    max_values: int = Settings.max_values,
    max_bytes: int = Settings.max_line,
) -> BatchInput:
    """Reads the lines of a batch; blank ones are skipped. Reading ends after `MAX_FAULTS` faults.

    Args:
        lines: the lines of the file.
        endpoint: the endpoint that every line must name; None: each may name one of `ENDPOINTS`.
        max_lines: the maximum number of requests.
        max_values: the maximum number of JSON values in a line.
        max_bytes: the maximum bytes of a line.
    """
    read: list[BatchLine] = []
    faults: list[LineFault] = []
    seen: dict[str, int] = {}
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            if len(text) > max_bytes:
                message = f"the line has more than {max_bytes:,} bytes: raise --max-line"
                raise refuse(message, code="line_too_long")
            value = _read_object(text, max_values)
            line = _read_line(value, number, endpoint)
            _check_new(line, seen)
        except HttpError as fault:
            message = cut_middle(fault.message, MAX_FAULT_LENGTH)
            faults.append(LineFault(fault.code, message, line=number, param=fault.where))
            if len(faults) == MAX_FAULTS:
                break
            continue
        if len(read) == max_lines:
            message = f"the file has more than {max_lines:,} requests: split it"
            faults.append(LineFault("too_many_requests", message, line=number))
            break
        read.append(line)
    if not read and not faults:
        faults.append(LineFault("empty_file", "the file has no requests"))
    return BatchInput(tuple(read), tuple(faults))


def _read_object(text: bytes, max_values: int) -> JsonObject:
    try:
        value = read_json(text, max_values=max_values, name="the line")
    except HttpError as error:
        raise refuse(error.message, code="invalid_json_line") from None
    if not isinstance(value, dict):
        raise refuse("the line is not a JSON object", code="invalid_json_line")
    return value


def _read_line(value: JsonObject, number: int, endpoint: str | None) -> BatchLine:
    custom_id = _read_text(value, "custom_id")
    if not 0 < len(custom_id) <= MAX_ID_LENGTH:
        message = f"custom_id must have 1 to {MAX_ID_LENGTH} characters"
        raise refuse(message, "custom_id", "invalid_custom_id")
    if _read_text(value, "method") != "POST":
        raise refuse("method must be POST", "method", "invalid_method")
    url = _read_text(value, "url")
    _check_url(url, endpoint)
    body = value.get("body")
    if not isinstance(body, dict):
        raise refuse("body must be an object", "body", "missing_required_parameter")
    data = json.dumps(_prepare(body, url)).encode()
    return BatchLine(number, custom_id, url, data, is_streamed=bool(body.get("stream")))


def _read_text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        message = f"{name} is missing" if text is None else f"{name} must be a text"
        raise refuse(message, name, "missing_required_parameter")
    return text


def _check_url(url: str, endpoint: str | None) -> None:
    if url not in ENDPOINTS:
        message = f"url is {url!r}, must be one of {', '.join(ENDPOINTS)}"
        raise refuse(message, "url", "invalid_url")
    if endpoint is not None and url != endpoint:
        message = f"url is {url!r}, the endpoint of the batch is {endpoint!r}"
        raise refuse(message, "url", "mismatched_url")


def _prepare(body: JsonObject, url: str) -> JsonObject:
    """Returns the body of a line as a request. Responses of a batch are only stored if the body
    says so; otherwise one batch could push all other responses out of the store."""
    if url == "/v1/responses" and "store" not in body:
        return {**body, "store": False}
    return body


def _check_new(line: BatchLine, seen: dict[str, int]) -> None:
    first = seen.setdefault(line.custom_id, line.number)
    if first != line.number:
        message = f"custom_id {line.custom_id!r} is already used in line {first}"
        raise refuse(message, "custom_id", "duplicate_custom_id")


@dataclass(frozen=True)
class LineResult:
    """The result of one line.

    Args:
        custom_id: the client's id of the line.
        status: the HTTP status; None: it was not executed, and `error` says why.
        body: the body of the reply or of the error.
        error: with `code` and `message`, or None.
        request_id: the id of the request in the log.
        may_retry: the server has not executed it, but may be able to later.
    """

    custom_id: str
    status: int | None = None
    body: Any = None
    error: JsonObject | None = None
    request_id: str = field(default_factory=lambda: make_id("req_"))
    may_retry: bool = False

    @property
    def is_complete(self) -> bool:
        """True if it has a reply."""
        return self.status == 200

    def encode(self) -> bytes:
        """Returns its line in the output file or the error file."""
        response: JsonObject | None = None
        if self.status is not None:
            response = {
                "status_code": self.status,
                "request_id": self.request_id,
                "body": self.body,
            }
        line = {
            "id": make_id("batch_req_"),
            "custom_id": self.custom_id,
            "response": response,
            "error": self.error,
        }
        text = json.dumps(line, ensure_ascii=False)
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:  # a lone surrogate
            return json.dumps(line).encode() + b"\n"


def fail_line(line: BatchLine, error: HttpError) -> LineResult:
    """Returns the result of a line that was not executed."""
    return LineResult(line.custom_id, error={"code": error.code, "message": error.message})
