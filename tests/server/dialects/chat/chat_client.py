"""What the tests of Chat Completions share: a short request, and asking."""

from typing import Any

import httpx

from tests.server.running_server import Json

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello"}]
SHORT: Json = {"messages": HELLO, "max_tokens": 150}  # a script that the mask forbids has no end


def ask(client: httpx.Client, **body: Any) -> Json:
    response = client.post(CHAT, json={**SHORT, **body})
    assert response.status_code == 200, response.text
    return response.json()
