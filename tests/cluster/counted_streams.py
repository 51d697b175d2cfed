"""Streams that count: each gap and each double in them shows."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

STEPS = 150
COUNTED = " ".join(f"{number}[ab]" for number in range(STEPS))
"""The model chooses the letters; what counts up shows each gap and each double."""


@dataclass
class CountedStream:
    """What came of one stream.

    Attributes:
        text: of the reply.
        calls: the arguments of its calls, by their index.
        resumed: places where another replica went on, as the reply tells them.
        is_ended: its last chunk has come.
        error: of the reply; None: there was none.
        longest_pause: seconds between two chunks.
    """

    text: str = ""
    calls: dict[int, str] = field(default_factory=dict[int, str])
    resumed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_ended: bool = False
    error: str | None = None
    longest_pause: float = 0.0

    @property
    def arguments(self) -> list[str]:
        """Of each call."""
        return list(self.calls.values())

    @property
    def is_whole(self) -> bool:
        """True if it counts up without gap or double, to its end."""
        return self.is_ended and re.fullmatch(COUNTED, self.text) is not None


def count_request(number: int) -> dict[str, Any]:
    """The body of a request for a stream that counts."""
    return {
        "model": "demo",
        "messages": [{"role": "user", "content": f"Count, please. This is request {number}."}],
        "structured_outputs": {"regex": COUNTED},
        "max_tokens": 1_800,
        "seed": number,
        "stream": True,
    }


async def follow(
    client: httpx.AsyncClient, body: dict[str, Any], note_chunk: Callable[[int], None]
) -> CountedStream:
    """Reads a stream to its end.

    Args:
        client: of the server.
        body: of the request.
        note_chunk: is told how many chunks there are, with each.
    """
    stream, chunks, heard = CountedStream(), 0, 0.0
    async with client.stream("POST", "/v1/chat/completions", json=body) as reply:
        if reply.status_code != 200:
            stream.error = (await reply.aread()).decode("utf-8", "replace")
            return stream
        async for line in reply.aiter_lines():
            if line == "data: [DONE]":
                stream.is_ended = True
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                stream.error = json.dumps(chunk["error"])
                return stream
            stream.resumed += chunk.get("constrained", {}).get("resumed", [])
            for choice in chunk["choices"]:
                stream.text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls") or []:
                    written = stream.calls.get(call["index"], "")
                    stream.calls[call["index"]] = written + call["function"].get("arguments", "")
            now = time.monotonic()
            if heard:
                stream.longest_pause = max(stream.longest_pause, now - heard)
            heard = now
            chunks += 1
            note_chunk(chunks)
    return stream
