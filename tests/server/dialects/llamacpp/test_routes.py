"""llama-server's own paths, other than those that generate."""

import httpx

from tests.server.running_server import Json

HELLO: Json = {"messages": [{"role": "user", "content": "Hello"}]}


def test_a_prompt_with_and_without_the_generation_prompt(plain: httpx.Client) -> None:
    opened = plain.post("/apply-template", json=HELLO).json()["prompt"]
    body = {**HELLO, "add_generation_prompt": False}
    closed = plain.post("/apply-template", json=body).json()["prompt"]
    assert "Hello" in closed
    assert opened == f"{closed}<|im_start|>assistant\n"


def test_a_reply_needs_the_generation_prompt(plain: httpx.Client) -> None:
    body = {**HELLO, "add_generation_prompt": False}
    response = plain.post("/v1/chat/completions", json=body)
    assert response.headers["x-ignored-fields"] == "add_generation_prompt"
