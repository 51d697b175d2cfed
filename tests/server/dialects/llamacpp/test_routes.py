"""llama-server's own paths, other than those that generate."""

import httpx
import pytest

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


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/completion", "/v1/completions"),
        ("/infill", "not inserted"),
        ("/v1/fim/completions", "not inserted"),
        ("/v1/rerank", "not rank"),
    ],
)
def test_paths_that_are_not_served_say_so(plain: httpx.Client, path: str, words: str) -> None:
    response = plain.post(path, json={"prompt": "a"})
    assert response.status_code == 404
    assert words in response.json()["error"]["message"]
