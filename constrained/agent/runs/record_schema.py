"""JSON schemas of records, to detect files that are damaged or that another program has written."""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from constrained.agent.budget import Budget
from constrained.agent.runs.json_form import read_options
from constrained.decode.request import Usage
from constrained.engine.files.stored import reading
from constrained.engine.sampling import Sampling
from constrained.limits.isolated_call import Isolation
from constrained.model.reply import Reply
from constrained.prompt.tools.call_result import Outcome
from grammars.schema.json_values import JsonObject
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema, Violation
from grammars.turn import CallConfidence, ToolCall

_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "number"}
_BOOLEAN: JsonObject = {"type": "boolean"}
_ANY: JsonObject = {}


def _object(required: JsonObject, optional: JsonObject | None = None) -> JsonObject:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": True,
    }


def _fields(kind: type, known: JsonObject) -> JsonObject:
    """Returns the schema of an object with the fields of a dataclass, and no others."""
    fields = dataclasses.fields(kind)
    properties = {field.name: known.get(field.name, _ANY) for field in fields}
    required = [field.name for field in fields if _has_no_default(field)]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _find_types(kind: type) -> JsonObject:
    """Returns the schemas of the fields of a dataclass, by their annotations."""
    return TypeAdapter(kind).json_schema()["properties"]


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


_WRITTEN_CALL = _fields(
    ToolCall,
    {
        "name": _TEXT,
        "arguments": _object({}),
        "errors": _list(_fields(Violation, {"pointer": _TEXT, "message": _TEXT})),
        "confidence": {"anyOf": [{"type": "null"}, _fields(CallConfidence, {})]},
    },
)
_CALL: JsonObject = {**_WRITTEN_CALL, "required": ["name", "arguments", "errors", "confidence"]}
_CALLS = _list(_CALL)
_USAGE = _fields(Usage, {"completion_tokens": _NUMBER, "prompt_tokens": _NUMBER})
_TOOLS = _list(
    _object(
        {
            "tool": _object({"function": _object({"name": _TEXT, "parameters": _object({})})}),
            "has_function": _BOOLEAN,
            "read_only": _BOOLEAN,
        }
    )
)
_REPLY = _fields(
    Reply,
    {
        "content": _TEXT,
        "finish_reason": _TEXT,
        "usage": _USAGE,
        "calls": _CALLS,
        "barred_calls": _CALLS,
        "unsure_calls": _CALLS,
    },
)
_BIAS: JsonObject = {"type": "array", "minItems": 2, "maxItems": 2}
_BIASES = _list(
    {**_BIAS, "prefixItems": [{"type": ["integer", "string"]}, {"type": ["string", "number"]}]}
)
_MESSAGES: JsonObject = {"anyOf": [_TEXT, _list(_object({"role": _TEXT}))]}
_OPTIONS = _object(
    {},
    {
        "sampling": _fields(Sampling, {**_find_types(Sampling), "logit_bias": _BIASES}),
        "budget": _fields(Budget, _find_types(Budget)),
        "isolate": {"anyOf": [_BOOLEAN, _fields(Isolation, _find_types(Isolation))]},
        "excluded_calls": _CALLS,
        "date": _TEXT,
    },
)
_REQUEST = _object(
    {
        "messages": _MESSAGES,
        "tools": _TOOLS,
        "options": _OPTIONS,
        "has_approve": _BOOLEAN,
        "model": _TEXT,
        "template": _TEXT,
        "tokens": {"type": "object", "additionalProperties": _TEXT},
        "format": _TEXT,
    },
    {"hidden_tools": _TOOLS, "search": _object({"tools": _TOOLS})},
)
SCHEMAS: Mapping[str, JsonObject] = {
    "turn": _object({"seconds": _NUMBER}),
    "tools": _object({"tools": _TOOLS}),
    "reply": _object({"reply": _REPLY, "seconds": _NUMBER}),
    "verdict": _object({"call": _CALL, "verdict": {"type": ["boolean", "string"]}}),
    "waiting": _object({"call": _CALL}),
    "begun": _object({"call": _CALL}),
    "result": _object(
        {
            "call": _CALL,
            "result": _object(
                {"outcome": {"enum": [one.value for one in Outcome]}, "content": _TEXT},
                {"error": _TEXT},
            ),
        }
    ),
    "end": _object({"reason": _TEXT, "detail": _TEXT, "outcomes": _list(_TEXT)}),
}
"""The schemas of the bodies of a run's events, by kind."""


@cache
def _lower_request() -> Schema:
    return lower(_REQUEST)


@cache
def _lower_body(kind: str) -> Schema:
    return lower(SCHEMAS[kind])


def read_request(text: Any, where: str) -> dict[str, Any]:
    """Returns the request of a run in its record, which is JSON text.

    Args:
        where: the place of the row, for messages.

    Raises:
        DamagedError: it is something else.
    """
    with reading(where):
        request = _read(_lower_request(), text)
        read_options(request["options"])  # a value out of its range, a date that is none
        return request


def read_body(kind: str, text: Any, where: str) -> dict[str, Any]:
    """Reads and checks the body of an event, which is JSON text.

    Args:
        kind: a key of `SCHEMAS`.
        where: the place of the row, for messages.

    Raises:
        DamagedError: it does not fit its schema.
    """
    with reading(where):
        if kind not in SCHEMAS:
            raise ValueError(f"it is of an unknown kind: {kind!r}")
        return _read(_lower_body(kind), text)


def _read(schema: Schema, text: Any) -> dict[str, Any]:
    body = json.loads(text)
    for error in schema.find_errors(body):
        raise ValueError(f"{error.pointer}: {error.message}")
    return body
