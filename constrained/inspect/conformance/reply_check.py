"""Checks properties that each reply of Chat Completions must have, with any model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jsonschema_rs import validator_for

from constrained.inspect.chat_server import WrongReply
from constrained.inspect.conformance.fault_kind import FaultKind
from grammars.schema.json_values import JsonObject
from grammars.wire.formats import FORMATS

_REASONS = ("stop", "length", "tool_calls", "content_filter")
CUT = "length"


def _find_markers() -> tuple[str, ...]:
    """Returns the special tokens that begin a call in the wire formats."""
    openers = {format.opener.text.strip() for format in FORMATS if format.opener is not None}
    return tuple(sorted(text for text in openers if text.startswith(("<", "["))))


MARKERS = _find_markers()


@dataclass(frozen=True)
class DescribedError:
    """An error in a reply.

    Args:
        kind: its kind.
        what: describes it.
    """

    kind: FaultKind
    what: str


@dataclass(frozen=True)
class CallOfReply:
    """A call of a reply.

    Args:
        id: of the call.
        name: of the tool.
        arguments: JSON text.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ReplyOfServer:
    """A reply of the server.

    Args:
        content: its text.
        calls: its calls.
        reason: its `finish_reason`.
        message: its message, to append to the conversation.
    """

    content: str
    calls: tuple[CallOfReply, ...]
    reason: str
    message: JsonObject

    @property
    def is_cut(self) -> bool:
        """Whether the tokens ran out."""
        return self.reason == CUT

    def show(self) -> JsonObject:
        """Returns the reply as JSON."""
        calls = [{"name": call.name, "arguments": call.arguments} for call in self.calls]
        return {"content": self.content, "calls": calls, "finish_reason": self.reason}


def read_whole_reply(body: JsonObject) -> ReplyOfServer:
    """Reads a reply that was not streamed.

    Raises:
        WrongReply: it has another form.
    """
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
    """Returns what the chunks of a stream add up to.

    Raises:
        WrongReply: they do not add up.
    """
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


def find_errors(reply: ReplyOfServer, tools: Sequence[JsonObject]) -> Iterator[DescribedError]:
    """Finds errors that do not depend on the request: in ids, names and arguments of calls, and
    markers of calls in the content. If a reply was cut, its last call may be cut, too."""
    if fault := _find_wrong_reason(reply):
        yield DescribedError(FaultKind.FINISH_REASON, fault)
    for marker in MARKERS:
        if marker in reply.content:
            what = f"the content contains {marker!r}, which begins a call"
            yield DescribedError(FaultKind.TAG, what)
    ids = [call.id for call in reply.calls]
    if len(set(ids)) < len(ids) or not all(isinstance(id, str) and id for id in ids):
        what = f"the ids of the calls are not distinct strings: {ids}"
        yield DescribedError(FaultKind.CALL_ID, what)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for i, call in enumerate(reply.calls):
        if reply.is_cut and i == len(reply.calls) - 1:
            continue
        error = _find_error_of_call(call, schemas)
        if error:
            yield DescribedError(error.kind, f"call {i}: {error.what}")


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
) -> DescribedError | None:
    if call.name not in schemas:
        return DescribedError(FaultKind.EXTRA_CALL, f"there is no tool {call.name!r}")
    if not isinstance(call.arguments, str):
        what = f"its arguments are not JSON text: {call.arguments!r}"
        return DescribedError(FaultKind.NO_JSON, what)
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError) as e:
        what = f"its arguments are not JSON: {e}: {call.arguments[:200]!r}"
        return DescribedError(FaultKind.NO_JSON, what)
    unfit = find_unfit(value, schemas[call.name])
    return None if unfit is None else DescribedError(FaultKind.SCHEMA, unfit)


def find_unfit(value: object, schema: JsonObject) -> str | None:
    """Returns why a value does not fit a schema; None if it does."""
    for error in validator_for(dict(schema)).iter_errors(value):
        pointer = "".join(f"/{part}" for part in error.instance_path)
        return f"{error.message} (at {pointer or '/'})"
    return None
