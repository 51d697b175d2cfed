"""Checks properties that each reply of Chat Completions must have, with any model."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jsonschema_rs import validator_for

from constrained.inspect.chat_server import WrongReply
from grammars.schema.json_values import JsonObject
from grammars.wire.formats import FORMATS

_REASONS = ("stop", "length", "tool_calls", "content_filter")
CUT = "length"


_OPENERS = {format.opener.text.strip() for format in FORMATS if format.opener is not None}
MARKERS = tuple(sorted(text for text in _OPENERS if text.startswith(("<", "["))))
"""The special tokens that begin a call in the wire formats."""


class FaultKind(StrEnum):
    """What is wrong, without the details: ids of findings depend on it, and not on the wording of a
    message."""

    CONTENT = "other content"
    NO_CONTENT = "no content"
    LOST_CALL = "lost call"
    EXTRA_CALL = "extra call"
    CALL_ORDER = "order of calls"
    ARGUMENTS = "other arguments"
    NO_JSON = "not JSON"
    SCHEMA = "schema"
    CALL_ID = "id of a call"
    FINISH_REASON = "finish_reason"
    TAG = "tag in the content"
    FORM = "form of the answer"
    NO_ANSWER = "no answer"
    ACCEPTED = "accepted"
    NO_MESSAGE = "no error message"
    CLIENT_ERROR = "status 4xx"
    SERVER_ERROR = "status 5xx"
    STATUS = "other status"


@dataclass(frozen=True)
class CallOfReply:
    """A call of a reply; its arguments are JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ReplyOfServer:
    """A reply of the server; `message` is to be appended to the conversation."""

    content: str
    calls: tuple[CallOfReply, ...]
    reason: str
    message: JsonObject

    @property
    def is_cut(self) -> bool:
        return self.reason == CUT

    def show(self) -> JsonObject:
        calls = [{"name": call.name, "arguments": call.arguments} for call in self.calls]
        return {"content": self.content, "calls": calls, "finish_reason": self.reason}


def read_whole_reply(body: JsonObject) -> ReplyOfServer:
    """Reads a reply that was not streamed; a WrongReply if it has another form."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        calls: list[CallOfReply] = []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls.append(CallOfReply(call["id"], function["name"], function["arguments"]))
        reply = ReplyOfServer(
            message.get("content") or "", tuple(calls), choice["finish_reason"], message
        )
    except (LookupError, TypeError, AttributeError) as e:
        cause = f"{type(e).__name__}: {e}"
        raise WrongReply(
            f"the reply has an unexpected form ({cause}): {json.dumps(body)[:300]}"
        ) from e
    return reply


def read_streamed_reply(chunks: Sequence[JsonObject]) -> ReplyOfServer:
    """Returns what the chunks of a stream add up to; a WrongReply if they do not."""
    content = ""
    reasons: list[str] = []
    calls: list[CallOfReply] = []
    for i, chunk in enumerate(chunks):
        try:
            choices = chunk["choices"]
            delta = choices[0]["delta"] if choices else {}
            content += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                _add_call(calls, call)
            if choices and choices[0].get("finish_reason"):
                reasons.append(choices[0]["finish_reason"])
        except (LookupError, TypeError, AttributeError) as e:
            cause = f"{type(e).__name__}: {e}"
            shown = json.dumps(chunk)[:300]
            raise WrongReply(f"chunk {i} has an unexpected form ({cause}): {shown}") from e
    if len(reasons) != 1:
        raise WrongReply(f"the stream has {len(reasons)} finish_reasons: {reasons}")
    return ReplyOfServer(content, tuple(calls), reasons[0], {})


def _add_call(calls: list[CallOfReply], delta: JsonObject) -> None:
    index, function = delta["index"], delta.get("function") or {}
    arguments = function.get("arguments") or ""
    if index == len(calls):
        if not function.get("name") or not delta.get("id"):
            raise WrongReply(f"call {index} begins without a name or an id: {json.dumps(delta)}")
        calls.append(CallOfReply(delta["id"], function["name"], arguments))
        return
    if index != len(calls) - 1:
        raise WrongReply(f"index {index} appears although only {len(calls)} calls have begun")
    last = calls[-1]
    if function.get("name") or delta.get("id") not in (None, "", last.id):
        raise WrongReply(f"call {index} begins twice: {json.dumps(delta)}")
    calls[-1] = CallOfReply(last.id, last.name, last.arguments + arguments)


def find_errors(
    reply: ReplyOfServer, tools: Sequence[JsonObject]
) -> Iterator[tuple[FaultKind, str]]:
    """Finds errors that do not depend on the request: in ids, names and arguments of calls, and
    markers of calls in the content. If a reply was cut, its last call may be cut, too."""
    if fault := _find_wrong_reason(reply):
        yield FaultKind.FINISH_REASON, fault
    for marker in MARKERS:
        if marker in reply.content:
            what = f"the content contains {marker!r}, which begins a call"
            yield FaultKind.TAG, what
    ids = [call.id for call in reply.calls]
    if len(set(ids)) < len(ids) or not all(isinstance(id, str) and id for id in ids):
        what = f"the ids of the calls are not distinct strings: {ids}"
        yield FaultKind.CALL_ID, what
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for i, call in enumerate(reply.calls):
        if reply.is_cut and i == len(reply.calls) - 1:
            continue
        if found := _find_error_of_call(call, schemas):
            kind, what = found
            yield kind, f"call {i}: {what}"


def _find_wrong_reason(reply: ReplyOfServer) -> str | None:
    if reply.reason not in _REASONS:
        return f"finish_reason is {reply.reason!r}"
    if reply.calls and reply.reason == "content_filter":
        return "finish_reason is 'content_filter', although there are calls"
    if not reply.calls and reply.reason == "tool_calls":
        return "finish_reason is 'tool_calls', although there is no call"
    return None


def _find_error_of_call(
    call: CallOfReply, schemas: Mapping[str, JsonObject]
) -> tuple[FaultKind, str] | None:
    if call.name not in schemas:
        return FaultKind.EXTRA_CALL, f"there is no tool {call.name!r}"
    if not isinstance(call.arguments, str):
        return FaultKind.NO_JSON, f"its arguments are not JSON text: {call.arguments!r}"
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError) as e:
        return FaultKind.NO_JSON, f"its arguments are not JSON: {e}: {call.arguments[:200]!r}"
    unfit = find_unfit(value, schemas[call.name])
    return None if unfit is None else (FaultKind.SCHEMA, unfit)


def find_unfit(value: object, schema: JsonObject) -> str | None:
    """Returns why a value does not fit a schema; None if it does."""
    for error in validator_for(dict(schema)).iter_errors(value):
        pointer = "".join(f"/{part}" for part in error.instance_path)
        return f"{error.message} (at {pointer or '/'})"
    return None


def compare_calls(
    wanted: Sequence[tuple[str, Any]], got: Sequence[tuple[str, Any]]
) -> Iterator[FaultKind]:
    """Yields the kinds of differences between calls, names with arguments, that are not the
    same."""
    wanted_names = [name for name, _ in wanted]
    got_names = [name for name, _ in got]
    lost = Counter(wanted_names) - Counter(got_names)
    extra = Counter(got_names) - Counter(wanted_names)
    if lost:
        yield FaultKind.LOST_CALL
    if extra:
        yield FaultKind.EXTRA_CALL
    if not lost and not extra:
        yield FaultKind.ARGUMENTS if got_names == wanted_names else FaultKind.CALL_ORDER
