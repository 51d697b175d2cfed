"""JSON schemas of records, to detect files that are damaged or that another program has written."""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

from constrained.agent.outcome import Outcome
from constrained.decode.request import Usage
from constrained.errors import RequestError
from constrained.reply import Reply
from grammars.lowering.lower import lower
from grammars.schema.nodes import Schema, Unfit
from grammars.turn import CallConfidence, ToolCall

Json: TypeAlias = Mapping[str, Any]
REQUEST = "request"
HINT = "It is damaged, or another program has written it"
_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_BOOLEAN: Json = {"type": "boolean"}
_ANY: Json = {}


def _object(required: Json, optional: Json | None = None) -> Json:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": True,
    }


def _fields(kind: type, known: Json) -> Json:
    """The schema of an object with the fields of a dataclass, and no others."""
    fields = dataclasses.fields(kind)
    properties = {field.name: known.get(field.name, _ANY) for field in fields}
    required = [field.name for field in fields if _has_no_default(field)]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_WRITTEN_CALL = _fields(
    ToolCall,
    {
        "name": _TEXT,
        "arguments": _object({}),
        "errors": _list(_fields(Unfit, {"pointer": _TEXT, "message": _TEXT})),
        "confidence": {"anyOf": [{"type": "null"}, _fields(CallConfidence, {})]},
    },
)
_CALL: Json = {**_WRITTEN_CALL, "required": ["name", "arguments", "errors", "confidence"]}
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
_BIAS: Json = {"type": "array", "minItems": 2, "maxItems": 2}
_BIASES = _list(
    {**_BIAS, "prefixItems": [{"type": ["integer", "string"]}, {"type": ["string", "number"]}]}
)
_MESSAGES: Json = {"anyOf": [_TEXT, _list(_object({"role": _TEXT}))]}
SCHEMAS: Mapping[str, Json] = {
    REQUEST: _object(
        {
            "messages": _MESSAGES,
            "tools": _TOOLS,
            "options": _object({}, {"sampling": _object({}, {"logit_bias": _BIASES})}),
            "has_approve": _BOOLEAN,
            "model": _TEXT,
            "template": _TEXT,
            "tokens": {"type": "object", "additionalProperties": _TEXT},
            "format": _TEXT,
        },
        {"hidden_tools": _TOOLS, "search": _object({"tools": _TOOLS})},
    ),
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
"""The schemas of a run's request, and of the bodies of its events by kind."""


@cache
def _lower(kind: str) -> Schema:
    return lower(SCHEMAS[kind])


def read_body(kind: str, text: Any, where: str) -> dict[str, Any]:
    """Reads and checks the JSON of a row.

    Args:
        kind: a key of `SCHEMAS`.
        text: JSON.
        where: the place of the row, for messages.

    Raises:
        RequestError: it does not fit its schema.
    """
    if kind not in SCHEMAS:
        raise RequestError(f"{where} is of no known kind: {kind!r}", where="/record", hint=HINT)
    try:
        body = json.loads(text)
    except (TypeError, ValueError, RecursionError) as e:
        raise RequestError(f"{where} is not JSON: {e}", where="/record", hint=HINT) from e
    for error in _lower(kind).find_errors(body):
        message = f"{where} cannot be read: {error.pointer}: {error.message}"
        raise RequestError(message, where="/record", hint=HINT)
    return body
