"""Two replicas on this machine, one of which is killed while streams are under way."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cluster.running_cluster import RunningCluster, run_cluster

pytestmark = pytest.mark.cluster
STEPS = 150
COUNTED = " ".join(f"{number}[ab]" for number in range(STEPS))
"""The model chooses the letters; what counts up shows each gap and each double."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with run_cluster("-np", "4", "-c", "4096", "--replicas", "2") as running:
        yield running


def count_request(number: int) -> dict[str, Any]:
    return {
        "model": "demo",
        "messages": [{"role": "user", "content": f"Count, please. This is request {number}."}],
        "structured_outputs": {"regex": COUNTED},
        "max_tokens": 1_800,
        "seed": number,
        "stream": True,
    }


async def follow(
    client: httpx.AsyncClient, number: int, begun: asyncio.Queue[int]
) -> tuple[str, list[Any]]:
    """The text of a stream, and where another replica went on."""
    text, resumed, chunks = "", list[Any](), 0
    async with client.stream("POST", "/v1/chat/completions", json=count_request(number)) as reply:
        assert reply.status_code == 200, await reply.aread()
        async for line in reply.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            assert "error" not in chunk, chunk
            resumed += chunk.get("constrained", {}).get("resumed", [])
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
            chunks += 1
            if chunks == 20:
                begun.put_nowait(number)
    return text, resumed


def ask_for_weather(client: httpx.Client) -> dict[str, Any]:
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": "What's the weather in Paris?"}],
        "tools": [WEATHER],
        "tool_choice": "required",
        "max_tokens": 100,
    }
    reply = client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    (call,) = reply.json()["choices"][0]["message"]["tool_calls"]
    return json.loads(call["function"]["arguments"])


def test_a_client_sees_one_stream_where_its_replica_is_killed(cluster: RunningCluster) -> None:
    async def ask() -> list[tuple[str, list[Any]]]:
        begun: asyncio.Queue[int] = asyncio.Queue()
        limits = httpx.Timeout(180)
        async with httpx.AsyncClient(base_url=cluster.url, timeout=limits) as client:
            streams = [asyncio.create_task(follow(client, n, begun)) for n in range(6)]
            for _ in streams:
                await begun.get()
            replicas = cluster.find_replicas()
            assert len(replicas) == 2
            os.kill(replicas[0], signal.SIGKILL)
            return await asyncio.gather(*streams)

    answers = asyncio.run(ask())
    for text, _ in answers:
        assert re.fullmatch(COUNTED, text), text
    resumed = [place for _, places in answers for place in places]
    assert resumed
    assert all(place["tokens"] > 0 for place in resumed)


def test_the_next_requests_are_answered_at_once(cluster: RunningCluster) -> None:
    with httpx.Client(base_url=cluster.url, timeout=60) as client:
        os.kill(cluster.find_replicas()[0], signal.SIGKILL)
        for _ in range(5):
            assert "city" in ask_for_weather(client)
