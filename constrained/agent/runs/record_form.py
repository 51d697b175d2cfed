"""The parts of a record as JSON: how they are written, checked and read.

The forms are pydantic models, so a record that is damaged, or that another program has written,
fails with the place of its first fault. Further fields are of later versions.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictBool, ValidationError
from pydantic_core import to_jsonable_python

from constrained.agent.budget import Budget
from constrained.decode.request import Usage
from constrained.engine.files.stored import reading
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.limits.isolated_call import Isolation
from constrained.model.reply import FinishReason, Reply
from constrained.prompt.messages import copy_json
from constrained.prompt.tools.call_result import CallResult, Outcome
from constrained.prompt.tools.functions import FunctionTool, as_tool
from constrained.prompt.tools.shapes import as_openai
from grammars.turn import ToolCall

UNRECORDED = ("approve", "on_interrupted", "hidden_tools", "search_tools")
"""Options that are not recorded: they are given again when a run is resumed, or are recorded with
the tools."""


class OptionsForm(BaseModel):
    """Options with a form of their own. The fields of dataclasses are all known."""

    model_config = ConfigDict(extra="forbid")
    sampling: Sampling | None = None
    budget: Budget | None = None
    isolate: StrictBool | Isolation = False
    excluded_calls: list[ToolCall] = []
    date: datetime | None = None


class ReplyForm(BaseModel):
    """A reply, without the probabilities of its tokens. Older records lack some fields."""

    model_config = ConfigDict(extra="forbid")
    content: str
    reasoning: str
    finish_reason: FinishReason
    unfinished: str
    text: str
    stop_sequence: str | None = None
    usage: Usage
    parsed: Any = None
    calls: tuple[ToolCall, ...]
    barred_calls: tuple[ToolCall, ...] = ()
    unsure_calls: tuple[ToolCall, ...] = ()


class _ShownFunction(BaseModel):
    name: str
    parameters: dict[str, Any]


class _ShownTool(BaseModel):
    function: _ShownFunction


class _RecordedTool(BaseModel):
    tool: _ShownTool
    has_function: bool
    read_only: bool


class _RecordedMessage(BaseModel):
    role: str


class _RecordedSearch(BaseModel):
    tools: list[_RecordedTool]


class _RequestForm(BaseModel):
    messages: str | list[_RecordedMessage]
    tools: list[_RecordedTool]
    options: dict[str, Any]
    has_approve: bool
    model: str
    template: str
    tokens: dict[str, str]
    format: str
    hidden_tools: list[_RecordedTool] = []
    search: _RecordedSearch | None = None


class _TurnBody(BaseModel):
    seconds: float


class _ToolsBody(BaseModel):
    tools: list[_RecordedTool]


class _ReplyBody(BaseModel):
    reply: ReplyForm
    seconds: float


class _CallBody(BaseModel):
    call: ToolCall


class _VerdictBody(_CallBody):
    verdict: StrictBool | str


class _ResultForm(BaseModel):
    outcome: Outcome
    content: str
    error: str = ""


class _ResultBody(_CallBody):
    result: _ResultForm


class _EndBody(BaseModel):
    reason: str
    detail: str
    outcomes: list[str]


_BODIES: Mapping[str, type[BaseModel]] = {
    "turn": _TurnBody,
    "tools": _ToolsBody,
    "reply": _ReplyBody,
    "verdict": _VerdictBody,
    "waiting": _CallBody,
    "begun": _CallBody,
    "result": _ResultBody,
    "end": _EndBody,
}
"""The forms of the bodies of a run's events, by kind."""


def read_request(text: Any, where: str) -> dict[str, Any]:
    """Reads and checks the request of a run, which is JSON text; `where` is its place, for
    messages.

    Raises:
        DamagedError: it is something else.
    """
    with reading(where):
        request = json.loads(text)
        _check(_RequestForm, request)
        _check(OptionsForm, _pick_formed(request["options"]), "/options")
        return request


def read_body(kind: str, text: Any, where: str) -> dict[str, Any]:
    """Reads and checks the body of an event of this kind, which is JSON text; `where` is its place,
    for messages.

    Raises:
        DamagedError: it has another form.
    """
    with reading(where):
        if kind not in _BODIES:
            raise ValueError(f"it is of an unknown kind: {kind!r}")
        body = json.loads(text)
        _check(_BODIES[kind], body)
        return body


def _check(form: type[BaseModel], value: Any, where: str = "") -> None:
    """Raises ValueError with the place of the first fault."""
    try:
        form.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        pointer = "".join(f"/{step}" for step in first["loc"])
        message = f"{where}{pointer}: {first['msg']}, not {first['input']!r:.100}"
        raise ValueError(message) from error


def write_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the options of a run as JSON.

    Raises:
        RequestError: an option has no JSON form, such as a class; `where` names it.
    """
    written: dict[str, Any] = {}
    for name, value in options.items():
        if name in UNRECORDED or value is None:
            continue
        if isinstance(value, type):
            hint = 'Give its JSON schema: {"type": "json_schema", "json_schema": {"schema": ...}}'
            message = f"{value.__name__} cannot be recorded"
            raise RequestError(message, where=f"/{name}", hint=hint)
        try:
            written[name] = to_jsonable_python(value)
        except (TypeError, ValueError) as e:
            raise RequestError(f"it cannot be recorded: {e}", where=f"/{name}") from e
        if isinstance(value, Sampling):  # JSON has no infinity
            biases = [(token, str(bias)) for token, bias in value.biases]
            written[name]["logit_bias"] = biases
    return written


def read_options(written: Mapping[str, Any]) -> dict[str, Any]:
    """Reads options that `write_options` has written."""
    read = OptionsForm.model_validate(_pick_formed(written))
    return {**written, **{name: getattr(read, name) for name in read.model_fields_set}}


def _pick_formed(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in OptionsForm.model_fields if name in options}


def write_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Writes tools as JSON: what the model reads, and whether they have a function."""
    read = [as_tool(tool) for tool in tools]
    written: list[dict[str, Any]] = []
    for tool, shown in zip(read, as_openai(read), strict=True):
        has_function = isinstance(tool, FunctionTool) and tool.function is not None
        is_read_only = isinstance(tool, FunctionTool) and tool.read_only
        entry = {"tool": shown, "has_function": has_function, "read_only": is_read_only}
        written.append(to_jsonable_python(entry))
    return written


def write_messages(messages: Sequence[Mapping[str, Any]] | str) -> Any:
    """Writes messages as JSON."""
    return to_jsonable_python(copy_json(messages))


def write_call(call: ToolCall) -> dict[str, Any]:
    """Writes a call as JSON."""
    return to_jsonable_python(call)


def read_call(body: Mapping[str, Any]) -> ToolCall:
    """Reads the call of an event."""
    return _CallBody.model_validate(body).call


def write_reply(reply: Reply) -> dict[str, Any]:
    """Writes a reply as JSON."""
    return to_jsonable_python({name: getattr(reply, name) for name in ReplyForm.model_fields})


def read_reply(written: Mapping[str, Any]) -> Reply:
    """Reads a reply that `write_reply` has written."""
    return Reply(**vars(ReplyForm.model_validate(written)))


def write_result(result: CallResult) -> dict[str, Any]:
    """Writes a result as JSON; errors as their text."""
    written: dict[str, Any] = {"outcome": result.outcome.value, "content": result.content}
    if result.result is not None:
        written["result"] = to_jsonable_python(result.result, by_alias=True, fallback=str)
    if result.error is not None:
        written["error"] = f"{type(result.error).__name__}: {result.error}"
    return written


def read_result(written: Mapping[str, Any], call: ToolCall) -> CallResult:
    """Reads a result that `write_result` has written."""
    form = _ResultForm.model_validate(written)
    error = RuntimeError(form.error) if form.error else None
    return CallResult(call, form.outcome, form.content, result=written.get("result"), error=error)
