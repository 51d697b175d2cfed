"""Attacks that take several requests: files, batches, and responses that are kept."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from benchmarks.attacks.bodies import HELLO, MIB
from benchmarks.attacks.echoes import write_long

PATIENCE = 50.0  # seconds until a batch has to be over
ENDED = ("completed", "failed", "expired", "cancelled")
CHAT = "/v1/chat/completions"
Json = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """Several requests, one after the other.

    Args:
        name: what they do.
        run: sends them, and gives the status of each.
        statuses: that they may have.
    """

    name: str
    run: Callable[[httpx.Client], Iterator[int]]
    statuses: tuple[int, ...] = (200, 400)


def write_line(number: int, **fields: Any) -> bytes:
    """A line of a batch."""
    body = {"messages": HELLO, "max_tokens": 2, **fields}
    line = {"custom_id": f"{number}", "method": "POST", "url": CHAT, "body": body}
    return json.dumps(line).encode() + b"\n"


def upload(client: httpx.Client, content: bytes) -> httpx.Response:
    """Sends the file of a batch."""
    files = {"file": ("x.jsonl", content)}
    return client.post("/v1/files", files=files, data={"purpose": "batch"})


def carry_out(client: httpx.Client, content: bytes, **fields: Any) -> Iterator[int]:
    """A batch from its file to its end, and what it has written."""
    sent = upload(client, content)
    yield sent.status_code
    asked = {"endpoint": CHAT, "completion_window": "24h", **fields}
    body = json.dumps(
        {**asked, "input_file_id": sent.json()["id"]}
    )  # ASCII: it may have surrogates
    made = client.post("/v1/batches", content=body, headers={"Content-Type": "application/json"})
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


def send_long_line(client: httpx.Client) -> Iterator[int]:
    """One line of 30 MB."""
    yield from carry_out(client, write_line(1, user="word " * (6 * MIB)))


def send_wide_line(client: httpx.Client) -> Iterator[int]:
    """One line of 240,000 values."""
    yield from carry_out(client, write_line(1, metadata={"x": [[]] * 240_000}))


def send_many_lines(client: httpx.Client) -> Iterator[int]:
    """50,000 lines, the last of which is wrong."""
    lines = b"".join(write_line(number) for number in range(50_000))
    yield from carry_out(client, lines + b"x\n")


def send_wrong_urls(client: httpx.Client) -> Iterator[int]:
    """Lines with long paths, which the faults of the batch quote."""
    lines: list[bytes] = []
    for number in range(60):
        line = {"custom_id": f"{number}", "method": "POST", "url": write_long(MIB // 2)}
        lines.append(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    for _ in range(5):
        yield from carry_out(client, b"".join(lines))


def send_long_metadata(client: httpx.Client) -> Iterator[int]:
    """Batches that have long values to bring back."""
    for _ in range(10):
        yield from carry_out(client, write_line(1), metadata={"a": write_long(3 * MIB)})


def send_odd_metadata(client: httpx.Client) -> Iterator[int]:
    """Batches whose metadata is not valid text: they must not break the list of all batches."""
    for metadata in ({"a": "\ud83d"}, {"\ud83d": "a"}):
        yield from carry_out(client, write_line(1), metadata=metadata)
        yield client.get("/v1/batches").status_code


def fetch_large_file(client: httpx.Client) -> Iterator[int]:
    """A file of 60 MB, sent and fetched."""
    sent = upload(client, b"x" * (60 * MIB))
    yield sent.status_code
    place = f"/v1/files/{sent.json()['id']}"
    yield client.get(f"{place}/content").status_code
    yield client.delete(place).status_code


def send_long_form(client: httpx.Client) -> Iterator[int]:
    """A form whose part has a head of 30 MB."""
    head = b'--x\r\nContent-Disposition: form-data; name="' + b"a" * (30 * MIB)
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    yield client.post("/v1/files", content=head, headers=headers).status_code


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


def keep_long_conversation(client: httpx.Client) -> Iterator[int]:
    """Responses that each go on from the one before, which are shown again."""
    body: Json = {"input": "a", "max_output_tokens": 1, "metadata": {"a": "b" * 500}}
    for _ in range(40):
        reply = client.post("/v1/responses", json=body)
        yield reply.status_code
        if reply.status_code != 200:
            return
        body["previous_response_id"] = reply.json()["id"]
    id = body["previous_response_id"]
    yield client.get(f"/v1/responses/{id}").status_code
    yield client.get(f"/v1/responses/{id}/input_items?limit=100").status_code


def send_together(path: str, body: Json, count: int, client: httpx.Client) -> Iterator[int]:
    """The same request several times at once."""
    content = json.dumps(body)
    headers = {"Content-Type": "application/json"}

    def send(_: int) -> int:
        return client.post(path, content=content, headers=headers).status_code

    with ThreadPoolExecutor(count) as pool:
        yield from pool.map(send, range(count))


def leave_replies(client: httpx.Client) -> Iterator[int]:
    """Long replies that nobody reads for some seconds."""
    body = {"content": "a b " * 250_000, "with_pieces": True}
    with ExitStack() as stack:
        for _ in range(12):
            stream = client.stream("POST", "/tokenize", json=body)
            yield stack.enter_context(stream).status_code
        time.sleep(5)


LONG_TALK: Json = {"messages": [{"role": "user", "content": "a"}] * 9_999, "max_tokens": 2}
SPINNING = "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i * j %}{% endfor %}"
SPINNING += "{% endfor %}"

EXCHANGES = (
    Exchange("8 conversations of 9,999 messages", partial(send_together, CHAT, LONG_TALK, 8)),
    Exchange(
        "3 endless templates at the workbench",
        partial(send_together, "/playground/inspect", {"template": SPINNING, "messages": HELLO}, 3),
    ),
    Exchange("12 replies of 30 MB that nobody reads", leave_replies),
    Exchange("a batch with a line of 30 MB", send_long_line),
    Exchange("a batch with a line of 240,000 values", send_wide_line),
    Exchange("a batch of 50,001 lines", send_many_lines),
    Exchange("batches with long paths", send_wrong_urls),
    Exchange("batches with metadata of 16 MB", send_long_metadata),
    Exchange("batches with metadata of half a character", send_odd_metadata),
    Exchange("a file of 60 MB", fetch_large_file),
    Exchange("a form with a head of 30 MB", send_long_form),
    Exchange("a form of 400,000 parts", send_parts_of_a_form, (400,)),
    Exchange("responses of small values", keep_small_values),
    Exchange("a conversation of 40 responses", keep_long_conversation),
)
