"""A proxy in front of an engine that damages what passes: requests, and streams of tokens."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from constrained.engine.vocabulary.vocabulary import Vocabulary

Json = dict[str, Any]
STREAMS = ("/completion", "/v1/completions", "/generate")
GRAMMARS = (("grammar",), ("structured_outputs",), ("sampling_params", "ebnf"))


class BrokenOff(Exception):  # noqa: N818  not an error of the tests
    """The connection is closed in the middle."""


@dataclass
class Stall:
    """Nothing more comes but comments, which keep the connection."""

    seconds: float = 5.0


@dataclass
class Faults:
    """The faults of a proxy.

    Args:
        names: of those that it chooses from, for each stream; empty: none.
        vocabulary: of the engine.
        chance: chooses.

    Attributes:
        last: what it has done to the last stream.
        counts: how often it has done each.
    """

    names: tuple[str, ...]
    vocabulary: Vocabulary
    chance: Random = field(default_factory=lambda: Random(0))
    last: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])

    def choose(self) -> str:
        """A fault for the next stream."""
        self.last = self.chance.choice(self.names) if self.names else ""
        self.counts[self.last] += 1
        return self.last

    def damage(self, name: str, events: list[Json]) -> list[Json | bytes]:
        """The events of a stream, with a fault at a place of chance."""
        place = self.chance.randrange(max(1, len(events) - 1))
        damaged: list[Json | bytes] = [*events]
        return DAMAGES[name](self, damaged, place)


Damage = Callable[[Faults, list[Any], int], list[Any]]


def _change_token(faults: Faults, events: list[Any], place: int) -> list[Any]:
    """Another id; the text stays."""
    event = json.loads(json.dumps(events[place]))
    ids = _find_ids(event)
    if ids:
        ids[-1] = faults.chance.randrange(len(faults.vocabulary.tokens))
    return [*events[:place], event, *events[place + 1 :]]


def _change_text(faults: Faults, events: list[Any], place: int) -> list[Any]:
    """Another id, and its text."""
    changed = _change_token(faults, events, place)
    ids = _find_ids(changed[place])
    if ids and "content" in changed[place]:
        text = faults.vocabulary.text(ids[-1:]).decode("utf-8", "replace")
        changed[place]["content"] = "" if ids[-1] in faults.vocabulary.control else text
    return changed


def _find_ids(event: Json) -> list[int]:
    """The list of ids in an event of whichever engine."""
    if event.get("choices"):
        return event["choices"][0]["token_ids"]
    return event.get("tokens", event.get("output_ids", []))


def _make_early_end(faults: Faults, events: list[Any], place: int) -> list[Any]:
    """The last events follow at once; what counts tokens is made to fit."""
    last = json.loads(json.dumps(events[-2:] if "choices" in events[-1] else events[-1:]))
    kept = events[:place]
    sent = sum(len(_find_ids(event)) for event in kept)
    for event in last:
        if "tokens_predicted" in event:
            event["tokens_predicted"] = kept[-1]["tokens_predicted"] if kept else 0
        if event.get("usage"):
            event["usage"]["completion_tokens"] = sent
        if event.get("choices"):
            event["choices"][0]["token_ids"] = []
        if "meta_info" in event:
            event["output_ids"] = event["output_ids"][:place]
            event["meta_info"]["completion_tokens"] = place
    return [*kept, *last]


DAMAGES: dict[str, Damage] = {
    "": lambda faults, events, place: events,
    "drop grammar": lambda faults, events, place: events,
    "shorten prompt": lambda faults, events, place: events,
    "cut": lambda faults, events, place: events[: place + 1],
    "break off": lambda faults, events, place: [*events[: place + 1], b"data: {", BrokenOff()],
    "repeat": lambda faults, events, place: [*events[: place + 1], *events[place:]],
    "lose": lambda faults, events, place: [*events[:place], *events[place + 1 :]],
    "swap": lambda faults, events, place: [
        *events[:place],
        *reversed(events[place : place + 2]),
        *events[place + 2 :],
    ],
    "change token": _change_token,
    "change text": _change_text,
    "end early": _make_early_end,
    "behind the end": lambda faults, events, place: [*events, events[0]],
    "stall": lambda faults, events, place: [*events[:place], Stall()],
    "garbage line": lambda faults, events, place: [
        *events[:place],
        b"\xffdat: {}\n\n",
        *events[place:],
    ],
    "garbage": lambda faults, events, place: [*events[:place], b"data: \xff{]\n\n"],
    "no object": lambda faults, events, place: [*events[:place], b"data: [1]\n\n"],
    "fault": lambda faults, events, place: [
        *events[:place],
        {"error": {"message": "out of memory"}},
    ],
}


def make_proxy(upstream: str, faults: Faults) -> FastAPI:
    """The application of a proxy in front of `http://upstream`."""
    # A connection that is kept would outlive the loop of an application that is none of its own.
    once = httpx.Limits(max_keepalive_connections=0)
    client = httpx.AsyncClient(base_url=upstream, timeout=60, trust_env=False, limits=once)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def forward(path: str, request: Request) -> Response:
        body = await request.body()
        if f"/{path}" in STREAMS:
            return await forward_stream(f"/{path}", json.loads(body))
        answer = await client.request(request.method, f"/{path}", content=body, headers=JSON)
        return Response(answer.content, answer.status_code, media_type="application/json")

    async def forward_stream(path: str, body: Json) -> Response:
        name = faults.choose()
        if name == "status":
            return Response('{"error": {"message": "sorry"}}', 500)
        if name == "busy":
            return Response('{"error": {"message": "later"}}', 429, {"Retry-After": "60"})
        if name == "drop grammar":
            _drop_grammar(body)
        if name == "shorten prompt":
            field = "input_ids" if "input_ids" in body else "prompt"
            body[field] = body[field][:-1]
        answer = await client.post(path, json=body)
        events = _read_events(answer.content)
        damaged = faults.damage(name, events)
        return StreamingResponse(_write(damaged), media_type="text/event-stream")

    return app


JSON = {"Content-Type": "application/json"}


def _drop_grammar(body: Json) -> None:
    for *path, last in GRAMMARS:
        inner = body
        for step in path:
            inner = inner.get(step, {})
        inner.pop(last, None)


def _read_events(stream: bytes) -> list[Json]:
    lines = [line for line in stream.splitlines() if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


async def _write(events: list[Any]) -> AsyncIterator[bytes]:
    for event in events:
        if isinstance(event, BrokenOff):
            raise event
        if isinstance(event, Stall):
            for _ in range(int(event.seconds / 0.1)):
                yield b": alive\n\n"
                await asyncio.sleep(0.1)
            return
        yield event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode()
