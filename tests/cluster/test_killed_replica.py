"""Two replicas on this machine, one of which is killed while streams are under way."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cluster.counted_streams import CountedStream, count_request, follow
from tests.cluster.running_cluster import RunningCluster, run_cluster

pytestmark = pytest.mark.cluster
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
    async def ask() -> list[CountedStream]:
        begun: asyncio.Queue[None] = asyncio.Queue()

        def note_chunk(chunks: int) -> None:
            if chunks == 20:
                begun.put_nowait(None)

        limits = httpx.Timeout(180)
        async with httpx.AsyncClient(base_url=cluster.url, timeout=limits) as client:
            bodies = map(count_request, range(6))
            streams = [asyncio.create_task(follow(client, body, note_chunk)) for body in bodies]
            for _ in streams:
                await begun.get()
            replicas = cluster.find_replicas()
            assert len(replicas) == 2
            os.kill(replicas[0], signal.SIGKILL)
            return await asyncio.gather(*streams)

    streams = asyncio.run(ask())
    for stream in streams:
        assert stream.is_whole, (stream.error, stream.text)
    resumed = [place for stream in streams for place in stream.resumed]
    assert resumed
    assert all(place["tokens"] > 0 for place in resumed)


def test_the_next_requests_are_answered_at_once(cluster: RunningCluster) -> None:
    with httpx.Client(base_url=cluster.url, timeout=60) as client:
        os.kill(cluster.find_replicas()[0], signal.SIGKILL)
        for _ in range(5):
            assert "city" in ask_for_weather(client)
