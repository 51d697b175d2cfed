"""Checks a server of the Chat Completions API, by properties that its replies must have with any
model."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.errors import DeadlineError, RequestError
from constrained.inspect.chat_server import NAME_HINT, ChatServer, HttpAnswer, WrongReply
from constrained.inspect.conformance.finding import SuiteFinding
from constrained.inspect.conformance.reply_check import (
    FaultKind,
    ReplyOfServer,
    compare_calls,
    find_errors,
    find_unfit,
    read_streamed_reply,
    read_whole_reply,
)
from grammars.schema.json_values import Json, JsonObject

_FEW_TOKENS = 12  # fewer than any call of the tools needs
_OK = 200
_SHOWN = 1000  # characters of a wrong answer
MAX_TOKENS = 512
"""Enough for a call of each of the tools."""


def make_tool(
    name: str, description: str, properties: JsonObject, **keywords: Any
) -> dict[str, Any]:
    """Returns a tool in OpenAI's form, strict, with closed arguments; `keywords` are further ones
    of its schema."""
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    parameters |= {"required": list(properties), "additionalProperties": False, **keywords}
    function = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": function}


WEATHER = make_tool(
    "get_weather",
    "The weather of a city",
    {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
)
FLIGHT = make_tool(
    "book_flight",
    "Books a flight",
    {
        "from": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "to": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "passengers": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "child": {"type": "boolean"}},
                "required": ["name", "child"],
                "additionalProperties": False,
            },
        },
        "seat": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
    },
)
TOOLS = (WEATHER, FLIGHT)
QUESTIONS = (
    "What is the weather in Paris for the next 3 days, in celsius?",
    "Book a flight from BER to CDG for Ann, who is no child, on any seat.",
)
ANSWER_SCHEMA = {
    "type": "object",
    "properties": {
        "capital": {"type": "string"},
        "continent": {"enum": ["Africa", "America", "Asia", "Europe", "Oceania"]},
        "rivers": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["capital", "continent", "rivers"],
    "additionalProperties": False,
}


def write_format(schema: Any) -> JsonObject:
    format = {"name": "answer", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": format}


def _call_with(parameters: Any) -> JsonObject:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    return {"tools": [tool], "tool_choice": "required"}


def _of_property(schema: Any) -> JsonObject:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


_UNKNOWN = {"type": "function", "function": {"name": "delete_everything"}}
_BAD_PATTERN = {"type": "string", "pattern": "(["}
_BAD_BOUNDS = {"type": "integer", "minimum": 5, "maximum": 1}
_BAD_TYPE = {"type": "strin"}
MISTAKES: Mapping[str, JsonObject] = {
    "a type that JSON Schema does not have": _call_with(_of_property(_BAD_TYPE)),
    "a pattern that is not a regular expression": _call_with(_of_property(_BAD_PATTERN)),
    "a reference to nowhere": _call_with(_of_property({"$ref": "#/$defs/missing"})),
    "an enum without values": _call_with(_of_property({"enum": []})),
    "bounds that no number fits": _call_with(_of_property(_BAD_BOUNDS)),
    "parameters that are not an object": _call_with("city"),
    "a tool without a name": {"tools": [{"type": "function", "function": {}}]},
    "a tool_choice of an unknown tool": {"tools": [WEATHER], "tool_choice": _UNKNOWN},
    'tool_choice "required" without tools': {"tool_choice": "required"},
    "an unknown tool_choice": {"tools": [WEATHER], "tool_choice": "perhaps"},
    "an answer of an unknown type": {"response_format": write_format(_BAD_TYPE)},
}
"""What is wrong with requests, and fields of their bodies. They have to get status 400: they are
neither ignored nor server errors."""


@dataclass(frozen=True)
class ServerReport:
    """The result of checking a server: the names of the executed checks, and the faults."""

    url: str
    model: str
    checks: Sequence[str]
    findings: Sequence[SuiteFinding]


@dataclass(frozen=True)
class ReplyFault:
    """A fault in a reply; `expected` is the expected reply, if there is one to compare."""

    kinds: Sequence[FaultKind]
    what: str
    body: Json
    got: Any = None
    expected: Any = None


class FaultFound(Exception):  # noqa: N818  ends a check, and is no error of ours
    """Ends a check that found a fault and cannot continue."""

    def __init__(self, fault: ReplyFault):
        self.fault = fault
        super().__init__(fault.what)


class Asker:
    """Sends requests to a server, and reads its replies."""

    def __init__(self, server: ChatServer, model: str):
        self._server = server
        self._model = model

    def make(self, question: str, **fields: Any) -> dict[str, Any]:
        """Makes a request body that gets the same answer each time, if the server supports that."""
        messages = [{"role": "user", "content": question}]
        body = {"model": self._model, "messages": messages, "temperature": 0, "seed": 7}
        return {**body, "max_tokens": MAX_TOKENS, **fields}

    def ask(self, body: Json) -> ReplyOfServer:
        """Sends a request, and returns the reply, streamed if the request says so; raises
        FaultFound if there is none, or its form is wrong."""
        answer = self._send(body)
        if answer.status != _OK:
            raise FaultFound(_make_status_fault(answer, body))
        try:
            if body.get("stream"):
                return read_streamed_reply(answer.read_chunks())
            return read_whole_reply(answer.read_json())
        except WrongReply as e:
            raise FaultFound(ReplyFault([FaultKind.FORM], str(e), body)) from e

    def _send(self, body: Json) -> HttpAnswer:
        try:
            return self._server.ask(body)
        except (RequestError, DeadlineError) as e:  # this request may have ended the server
            what = f"there is no reply: {e.message}"
            raise FaultFound(ReplyFault([FaultKind.NO_ANSWER], what, body)) from e

    def find_mistaken(self, body: Json) -> Iterator[ReplyFault]:
        """Yields what is wrong with the reply to an invalid request; raises FaultFound without
        one."""
        answer = self._send(body)
        is_refused = 400 <= answer.status < 500
        if not is_refused:
            yield _make_status_fault(answer, body, expected="status 400")
            return
        try:
            error = answer.read_json().get("error")
        except WrongReply as e:
            yield ReplyFault([FaultKind.FORM], str(e), body)
            return
        if not isinstance(error, dict) or not error.get("message"):
            what = "the error has no message"
            yield ReplyFault([FaultKind.NO_MESSAGE], what, body, got=answer.text[:_SHOWN])


def calls_when_required(asker: Asker) -> Iterator[ReplyFault]:
    """tool_choice "required" gives at least one call, and its arguments fit the schema."""
    for question in QUESTIONS:
        body = asker.make(question, tools=TOOLS, tool_choice="required")
        reply = asker.ask(body)
        if not reply.calls and not reply.is_cut:
            yield ReplyFault([FaultKind.LOST_CALL], "there is no call", body, got=reply.show())
        yield from _find_faults(reply, body)


def calls_what_is_named(asker: Asker) -> Iterator[ReplyFault]:
    """A tool_choice that names a tool gives a call of that tool."""
    for tool in TOOLS:
        name = tool["function"]["name"]
        choice = {"type": "function", "function": {"name": name}}
        body = asker.make(QUESTIONS[0], tools=TOOLS, tool_choice=choice)
        reply = asker.ask(body)
        names = [call.name for call in reply.calls]
        if set(names) != {name} and not reply.is_cut:
            kinds = [FaultKind.EXTRA_CALL] if names else [FaultKind.LOST_CALL]
            what = f"{names} is called instead of {name!r}"
            yield ReplyFault(kinds, what, body, got=reply.show())
        yield from _find_faults(reply, body)


def calls_nothing_when_none(asker: Asker) -> Iterator[ReplyFault]:
    """With tool_choice "none", the reply has no call, neither in tool_calls nor as text."""
    body = asker.make(QUESTIONS[0], tools=TOOLS, tool_choice="none", max_tokens=128)
    reply = asker.ask(body)
    if reply.calls:
        yield ReplyFault([FaultKind.EXTRA_CALL], "a tool is called", body, got=reply.show())
    yield from _find_faults(reply, body)


def chooses_by_itself(asker: Asker) -> Iterator[ReplyFault]:
    """With tool_choice "auto", calls fit the schema, and no call is left in the content."""
    for question in QUESTIONS:
        body = asker.make(question, tools=TOOLS)
        yield from _find_faults(asker.ask(body), body)


def calls_one_if_not_parallel(asker: Asker) -> Iterator[ReplyFault]:
    """parallel_tool_calls: false gives at most one call."""
    question = "What is the weather in Paris, in Rome, and in Oslo?"
    body = asker.make(question, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    reply = asker.ask(body)
    if len(reply.calls) > 1:
        what = f"{len(reply.calls)} tools are called"
        yield ReplyFault([FaultKind.EXTRA_CALL], what, body, got=reply.show())
    yield from _find_faults(reply, body)


def streams_the_reply(asker: Asker) -> Iterator[ReplyFault]:
    """The chunks of a stream add up to the reply without a stream; each call comes once."""
    for choice in ("auto", "required"):
        for question in (*QUESTIONS, "Say hello."):
            body = asker.make(question, tools=TOOLS, tool_choice=choice, max_tokens=256)
            whole, again = asker.ask(body), asker.ask(body)
            stream_body = {**body, "stream": True}
            streamed = asker.ask(stream_body)
            yield from _find_faults(streamed, stream_body)
            # If the server's replies differ each time, its first reply proves nothing.
            if whole.show() == again.show() != streamed.show():
                what = "the chunks of the stream add up to a different reply"
                yield ReplyFault(
                    [*_compare(whole, streamed)],
                    what,
                    stream_body,
                    got=streamed.show(),
                    expected=whole.show(),
                )


def answers_in_the_format(asker: Asker) -> Iterator[ReplyFault]:
    """A response_format with a schema gives content that fits it."""
    format = write_format(ANSWER_SCHEMA)
    body = asker.make("What is the capital of France? Answer in JSON.", response_format=format)
    reply = asker.ask(body)
    if reply.is_cut:
        return
    try:
        unfit = find_unfit(json.loads(reply.content), ANSWER_SCHEMA)
        kind = FaultKind.SCHEMA
    except ValueError as e:
        unfit = f"it is not JSON: {e}"
        kind = FaultKind.NO_JSON
    if unfit:
        what = f"the content does not fit: {unfit}"
        yield ReplyFault([kind], what, body, got=reply.show())


def takes_its_calls_back(asker: Asker) -> Iterator[ReplyFault]:
    """The server accepts its own replies in the history, with results, even if they were cut."""
    for choice, max_tokens in (("required", 256), ("auto", _FEW_TOKENS)):
        body = asker.make(QUESTIONS[0], tools=[WEATHER], tool_choice=choice, max_tokens=max_tokens)
        reply = asker.ask(body)
        messages = [*body["messages"], {**reply.message, "role": "assistant"}]
        for call in reply.calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "18 degrees"})
        if not reply.calls:
            messages.append({"role": "user", "content": "Go on."})
        rest = {"tools": [WEATHER], "tool_choice": "none", "max_tokens": 32}
        further = {**body, "messages": messages, **rest}
        yield from _find_faults(asker.ask(further), further)


def refuses_what_cannot_be(asker: Asker) -> Iterator[ReplyFault]:
    """An invalid request gets status 400 with a message, and is not ignored."""
    for mistake, fields in MISTAKES.items():
        body = asker.make("Hello", **{"max_tokens": 32, **fields})
        for fault in asker.find_mistaken(body):
            yield replace(fault, what=f"{mistake}: {fault.what}")


CHECKS: tuple[Callable[[Asker], Iterator[ReplyFault]], ...] = (
    calls_when_required,
    calls_what_is_named,
    calls_nothing_when_none,
    chooses_by_itself,
    calls_one_if_not_parallel,
    streams_the_reply,
    answers_in_the_format,
    takes_its_calls_back,
    refuses_what_cannot_be,
)


def check_server(
    url: str,
    *,
    api_key: str = "",
    model: str = "",
    report: Callable[[float, float], None] = lambda done, whole: None,
) -> ServerReport:
    """Checks a server with some 50 requests.

    Args:
        url: the address, with or without `/v1`.
        api_key: "": none.
        model: "": the first one that the server lists.
        report: called with the number of finished checks and the number of all checks.

    Raises:
        RequestError, DeadlineError: the server cannot be reached.
    """
    server = ChatServer(url, api_key)
    if not model:
        models = server.list_models()
        if not models:
            raise RequestError(f"{server.base}/v1/models lists no models", hint=NAME_HINT)
        model = models[0]
    findings: list[SuiteFinding] = []
    for i, check in enumerate(CHECKS):
        report(i, len(CHECKS))
        about = (check.__doc__ or "").partition("\n")[0]
        try:
            for fault in check(Asker(server, model)):
                findings.append(_make_finding(check.__name__, about, fault, server.url))
        except FaultFound as e:
            findings.append(_make_finding(check.__name__, about, e.fault, server.url))
    names = [check.__name__ for check in CHECKS]
    return ServerReport(server.url, model, checks=names, findings=findings)


def _make_finding(check: str, about: str, fault: ReplyFault, url: str) -> SuiteFinding:
    data = shlex.quote(json.dumps(fault.body))
    header = "-H 'Content-Type: application/json'"
    return SuiteFinding(
        [check],
        about,
        fault.what,
        kinds=fault.kinds,
        severity=fault.kinds[0],
        request={"body": fault.body},
        expected=fault.expected,
        got=fault.got,
        reproduce=f"curl {shlex.quote(url)} {header} -d {data}",
    )


def _make_status_fault(answer: HttpAnswer, body: Json, *, expected: Any = None) -> ReplyFault:
    kinds = {2: FaultKind.ACCEPTED, 4: FaultKind.CLIENT_ERROR, 5: FaultKind.SERVER_ERROR}
    return ReplyFault(
        [kinds.get(answer.status // 100, FaultKind.STATUS)],
        f"status {answer.status}",
        body,
        got=answer.text[:_SHOWN],
        expected=expected,
    )


def _compare(whole: ReplyOfServer, streamed: ReplyOfServer) -> Iterator[FaultKind]:
    """Yields the kinds of differences between a reply and the one that was streamed."""
    if streamed.content != whole.content:
        yield FaultKind.CONTENT if streamed.content else FaultKind.NO_CONTENT
    wanted = [(call.name, call.arguments) for call in whole.calls]
    got = [(call.name, call.arguments) for call in streamed.calls]
    if got != wanted:
        yield from compare_calls(wanted, got)
    if streamed.reason != whole.reason:
        yield FaultKind.FINISH_REASON


def _find_faults(reply: ReplyOfServer, body: Json) -> Iterator[ReplyFault]:
    for kind, what in find_errors(reply, body.get("tools") or ()):
        yield ReplyFault([kind], what, body, got=reply.show())
