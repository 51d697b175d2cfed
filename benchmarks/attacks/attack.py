"""An attack: a request that is meant to cost others time or memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Attack:
    """A request.

    Args:
        name: what it does.
        make: gives the body of the request; called only when it is sent, for some have megabytes.
        path: of the request.
    """

    statuses: ClassVar = (200, 400, 404, 413, 422)
    """What may come of any attack: an answer or a refusal. 422 is a reply that fails a keyword
    which is only checked."""

    name: str
    make: Callable[[], Body]
    path: str = "/v1/chat/completions"


def ask_for_call(schema: Any) -> Body:
    """A request with a tool of these parameters, which has to be called."""
    function = {"name": "f", "parameters": schema}
    return {
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "max_tokens": 64,
    }


def ask_for_json(schema: Any) -> Body:
    """A request whose answer has to fit this schema."""
    return {
        "messages": [{"role": "user", "content": "hello"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "max_tokens": 64,
    }


def ask_for_text(**constraint: Any) -> Body:
    """A request whose answer is constrained by a field such as `choice`, `regex`, `grammar`."""
    return {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 64, **constraint}
