"""Attacks that take several requests: files, batches, and responses that are kept."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import httpx

from benchmarks.attacks.bodies import HELLO, MIB
from grammars.schema.json_values import JsonObject

PATIENCE = 50.0  # seconds until a batch has to be over
ENDED = ("completed", "failed", "expired", "cancelled")
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Exchange:
    """Several requests, one after the other.

    Args:
        name: what they do.
        run: sends them, and gives the status of each.
    """

    name: str
    run: Callable[[httpx.Client], Iterator[int]]


def write_line(number: int) -> bytes:
    """A line of a batch."""
    body = {"messages": HELLO, "max_tokens": 2}
    line = {"custom_id": f"{number}", "method": "POST", "url": CHAT, "body": body}
    return json.dumps(line).encode() + b"\n"


def upload(client: httpx.Client, content: bytes) -> httpx.Response:
    """Sends the file of a batch."""
    files = {"file": ("x.jsonl", content)}
    return client.post("/v1/files", files=files, data={"purpose": "batch"})


def carry_out(client: httpx.Client, content: bytes) -> Iterator[int]:
    """A batch from its file to its end, and what it has written."""
    sent = upload(client, content)
    yield sent.status_code
    asked = {"endpoint": CHAT, "completion_window": "24h", "input_file_id": sent.json()["id"]}
    made = client.post("/v1/batches", json=asked)
    yield made.status_code
    batch = made.json()
    end = time.monotonic() + PATIENCE
    while "id" in batch and batch["status"] not in ENDED and time.monotonic() < end:
        time.sleep(0.2)
        batch = client.get(f"/v1/batches/{batch['id']}").json()
    for name in ("output_file_id", "error_file_id"):
        if batch.get(name):
            yield client.get(f"/v1/files/{batch[name]}/content").status_code
    if "id" in batch:
        yield client.get(f"/v1/batches/{batch['id']}").status_code
    client.delete(f"/v1/files/{sent.json()['id']}")


def send_many_lines(client: httpx.Client) -> Iterator[int]:
    """50,000 lines, the last of which is wrong."""
    lines = b"".join(write_line(number) for number in range(50_000))
    yield from carry_out(client, lines + b"x\n")


def fetch_large_file(client: httpx.Client) -> Iterator[int]:
    """A file of 60 MB, sent and fetched."""
    sent = upload(client, b"x" * (60 * MIB))
    yield sent.status_code
    place = f"/v1/files/{sent.json()['id']}"
    yield client.get(f"{place}/content").status_code
    yield client.delete(place).status_code


def send_parts_of_a_form(client: httpx.Client) -> Iterator[int]:
    """A form of very many parts."""
    part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    content = part * 400_000 + b"--x--\r\n"
    yield client.post("/v1/files", content=content, headers=headers).status_code


def keep_small_values(client: httpx.Client) -> Iterator[int]:
    """Responses with tools: each value takes ten times the memory of its JSON."""
    parameters = {"type": "object", "properties": {"a": {"examples": [[]] * 200_000}}}
    tool = {"type": "function", "name": "f", "parameters": parameters}
    body = {"input": HELLO, "max_output_tokens": 2, "tools": [tool], "tool_choice": "none"}
    content = json.dumps(body)
    headers = {"Content-Type": "application/json"}
    for _ in range(60):
        reply = client.post("/v1/responses", content=content, headers=headers)
        yield reply.status_code


def send_together(path: str, body: JsonObject, count: int, client: httpx.Client) -> Iterator[int]:
    """The same request several times at once."""
    content = json.dumps(body)
    headers = {"Content-Type": "application/json"}

    def send(_: int) -> int:
        return client.post(path, content=content, headers=headers).status_code

    with ThreadPoolExecutor(count) as pool:
        yield from pool.map(send, range(count))


LONG_TALK: JsonObject = {"messages": HELLO * 9_999, "max_tokens": 2}
EXCHANGES = (
    Exchange("8 conversations of 9,999 messages", partial(send_together, CHAT, LONG_TALK, 8)),
    Exchange("a batch of 50,001 lines", send_many_lines),
    Exchange("a file of 60 MB", fetch_large_file),
    Exchange("a form of 400,000 parts", send_parts_of_a_form),
    Exchange("responses of small values", keep_small_values),
)
