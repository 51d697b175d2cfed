"""An attack: a request, and the statuses that a server may answer it with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Body = Mapping[str, Any]
REFUSED = (400,)
ANSWERED = (200, 400, 422)


@dataclass(frozen=True)
class Attack:
    """A request that is meant to cost others time or memory.

    Args:
        name: what it does.
        make: gives the body of the request; called only when it is sent, for some have megabytes.
        path: of the request.
        statuses: what may come of it. An attack that has a fair answer may get that (200); a reply
            that fails a keyword which is only checked is 422.
        is_variant: another attack is the same by another way.
    """

    name: str
    make: Callable[[], Body]
    path: str = "/v1/chat/completions"
    statuses: tuple[int, ...] = ANSWERED
    is_variant: bool = False


def ask_for_call(schema: Any, *, required: bool = True) -> Body:
    """A request with a tool of these parameters, which has to be called."""
    function = {"name": "f", "parameters": schema}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 64,
    }
    if required:
        body["tool_choice"] = "required"
    return body


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
