"""What the tests of Responses share: asking, and what two responses have in common."""

from typing import Any

import httpx

from tests.server.running_server import Json, stream
from tests.templates import PING

RESPONSES = "/v1/responses"
FLAT_PING = {"type": "function", **PING["function"]}
MAX_TOKENS = 150  # tokens; a script that the mask forbids has no end
VARYING = ("id", "created_at", "completed_at", "call_id", "item_id")


def ask(client: httpx.Client, input: Any = "Hello", **body: Any) -> Json:
    response = client.post(
        RESPONSES, json={"input": input, "max_output_tokens": MAX_TOKENS, **body}
    )
    assert response.status_code == 200, response.text
    return response.json()


def refuse(client: httpx.Client, input: Any = "Hello", status: int = 400, **body: Any) -> Json:
    """The error of a request that is refused."""
    response = client.post(RESPONSES, json={"input": input, **body})
    assert response.status_code == status, response.text
    return response.json()["error"]


def events_of(client: httpx.Client, input: Any = "Hello", **body: Any) -> list[Json]:
    named = stream(client, RESPONSES, {"input": input, "max_output_tokens": MAX_TOKENS, **body})
    assert all(name == event["type"] for name, event in named)
    return [event for _, event in named]


def lasting(value: Any) -> Any:
    """What two responses to the same request have in common."""
    if isinstance(value, list):
        return [lasting(item) for item in value]
    if not isinstance(value, dict):
        return value
    gone = (*VARYING, "input_tokens_details")  # the second request finds the first in the cache
    return {key: lasting(item) for key, item in value.items() if key not in gone}
