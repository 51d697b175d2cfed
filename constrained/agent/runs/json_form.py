"""The parts of a record as JSON: request, replies and results."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python

from constrained.agent.budget import Budget
from constrained.decode.request import Usage
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.limits.isolated_call import Isolation
from constrained.model.reply import Reply
from constrained.prompt.messages import copy_json
from constrained.prompt.tools.call_result import CallResult, Outcome
from constrained.prompt.tools.functions import FunctionTool, as_tool
from constrained.prompt.tools.shapes import as_openai
from grammars.schema.nodes import Violation
from grammars.turn import CallConfidence, ToolCall

UNRECORDED = ("approve", "on_interrupted", "hidden_tools", "search_tools")
"""Options that are not recorded: they are given again when a run is resumed, or are recorded with
the tools."""
_VALUES = {"sampling": Sampling, "budget": Budget, "isolate": Isolation}


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
            written[name] = to_jsonable_python(_write_option(name, value))
        except (TypeError, ValueError) as e:
            raise RequestError(f"it cannot be recorded: {e}", where=f"/{name}") from e
    return written


def _write_option(name: str, value: Any) -> Any:
    if name == "excluded_calls":
        return [write_call(call) for call in value]
    if name not in _VALUES or isinstance(value, bool):
        return value  # a date is written in ISO 8601
    fields = dataclasses.asdict(value)
    if biases := fields.get("logit_bias"):
        fields["logit_bias"] = [(token, str(bias)) for token, bias in biases]  # no infinity in JSON
    return fields


def read_options(written: Mapping[str, Any]) -> dict[str, Any]:
    """Reads options that `write_options` has written."""
    options = dict(written)
    for name, kind in _VALUES.items():
        if isinstance(options.get(name), Mapping):
            options[name] = _read_value(kind, options[name])
    if "excluded_calls" in options:
        options["excluded_calls"] = [read_call(call) for call in options["excluded_calls"]]
    if "date" in options:
        options["date"] = datetime.fromisoformat(options["date"])
    return options


def _read_value(kind: type, written: Mapping[str, Any]) -> Any:
    fields = dict(written)
    if "logit_bias" in fields:
        fields["logit_bias"] = tuple((token, float(bias)) for token, bias in fields["logit_bias"])
    return kind(**fields)


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
    return dataclasses.asdict(call)


def read_call(written: Mapping[str, Any]) -> ToolCall:
    """Reads a call that `write_call` has written."""
    errors = tuple(Violation(**error) for error in written["errors"])
    confidence = written["confidence"]
    if confidence is not None:
        confidence = CallConfidence(**confidence)
    return ToolCall(**{**written, "errors": errors, "confidence": confidence})


_REPLY_TEXTS = ("content", "reasoning", "finish_reason", "unfinished", "text", "stop_sequence")

_REPLY_CALLS = ("calls", "barred_calls", "unsure_calls")


def write_reply(reply: Reply) -> dict[str, Any]:
    """Writes a reply as JSON, without the probabilities of its tokens."""
    written: dict[str, Any] = {name: getattr(reply, name) for name in _REPLY_TEXTS}
    written["usage"] = dataclasses.asdict(reply.usage)
    written["parsed"] = reply.parsed
    for name in _REPLY_CALLS:
        written[name] = [write_call(call) for call in getattr(reply, name)]
    return written


def read_reply(written: Mapping[str, Any]) -> Reply:
    """Reads a reply that `write_reply` has written."""
    fields = dict(written)
    for name in _REPLY_CALLS:
        fields[name] = tuple(map(read_call, written.get(name, ())))  # older records lack some
    fields["usage"] = Usage(**written["usage"])
    return Reply(**fields)


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
    error = None
    if "error" in written:
        error = RuntimeError(written["error"])
    return CallResult(
        call,
        Outcome(written["outcome"]),
        written["content"],
        result=written.get("result"),
        error=error,
    )
