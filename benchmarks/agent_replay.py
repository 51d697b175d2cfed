"""An agent's conversation through /v1/messages: how much is read from the cache, and how much time
that saves.

    python -m benchmarks.agent_replay [-m MODEL.gguf] [--shape small|0.6b] [--turns 12] [-t THREADS]

Without -m, a model with random weights is made: its calls are valid but meaningless. Each turn has
to call a tool; a made-up result goes back (see `benchmarks.inputs.agent_trace`). Prints, for each
request, its input tokens, the tokens read from and written to the cache, and the seconds to the
first event of the model; then the same for the last request on a server with an empty cache. Exit
code 1 if less than 80 % of the input was read from the cache from the second request on, or if the
beginning of the prompts has changed.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.forced import make_model
from benchmarks.inputs.agent_trace import PINNED, QUESTION, make_result, make_system, make_tools
from benchmarks.processes.served import serve

LEAST = 0.8  # of the input


@dataclass(frozen=True)
class Seen:
    """A request and its reply.

    Args:
        content: the blocks of the reply.
        usage: what the reply says it took.
        first: seconds until the model said something.
        head: names what the prompt begins with.
    """

    content: list[Any]
    usage: dict[str, int]
    first: float
    head: str

    @property
    def input(self) -> int:
        """Tokens of the whole prompt."""
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return sum(self.usage[name] for name in names)

    @property
    def share(self) -> float:
        """What of it was read from the cache."""
        return self.usage["cache_read_input_tokens"] / self.input


def ask(client: httpx.Client, messages: list[Any], number: int) -> Seen:
    """Sends one request and returns what was measured."""
    body: dict[str, Any] = {
        "model": "any",
        "system": make_system(number),
        "tools": make_tools(),
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "messages": messages,
        "max_tokens": 200,
        "temperature": 0,
        "thinking": {"type": "disabled"},
        "stream": True,
    }
    blocks, usage, first = list[Any](), dict[str, int](), 0.0
    started = time.perf_counter()
    with client.stream("POST", "/v1/messages", json=body) as response:
        if response.status_code != 200:
            raise RuntimeError(response.read().decode())
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line[6:])
            match event["type"]:
                case "content_block_start":
                    first = first or time.perf_counter() - started
                    blocks.append(event["content_block"] | {"text_": ""})
                case "content_block_delta":
                    delta = event["delta"]
                    blocks[-1]["text_"] += delta.get("partial_json", delta.get("text", ""))
                case "message_delta":
                    usage = event["usage"]
                case "error":
                    raise RuntimeError(event["error"]["message"])
                case _:
                    pass
        head = response.headers["x-head-hash"]
    return Seen([_finish(block) for block in blocks], usage, first, head)


def _finish(block: Any) -> Any:
    text = block.pop("text_")
    if block["type"] == "tool_use":
        return {**block, "input": json.loads(text)}
    return {**block, "text": text}


def converse(client: httpx.Client, turns: int) -> tuple[list[Seen], list[Any]]:
    """Sends all requests; returns them, and the messages of the last one."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    seen, asked = list[Seen](), list[Any]()
    for number in range(turns):
        asked = list(messages)
        seen.append(ask(client, messages, number))
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": make_result(number)}
            for block in seen[-1].content
            if block["type"] == "tool_use"
        ]
        results[-1] |= PINNED
        for message in messages[1:]:  # an agent moves its last breakpoint along
            if message["role"] == "user":
                message["content"][-1].pop("cache_control", None)
        messages += [{"role": "assistant", "content": seen[-1].content}]
        messages += [{"role": "user", "content": results}]
    return seen, asked


def main() -> int:
    """Replays, and prints."""
    parser = argparse.ArgumentParser(description="An agent's conversation.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"), default="small")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("-c", "--context", type=int, default=32_768)
    parser.add_argument("-t", "--threads", type=int, default=0)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model or make_model(Path(folder, "model.gguf"), options.shape, "Q8_0")
        arguments = ["-m", str(path), "-c", str(options.context), "-t", str(options.threads)]
        arguments += ["--log-level", "error"]
        with serve(arguments) as served, httpx.Client(base_url=served.url, timeout=3600) as client:
            seen, asked = converse(client, options.turns)
        with serve(arguments) as served, httpx.Client(base_url=served.url, timeout=3600) as client:
            cold = ask(client, asked, options.turns - 1)
    return _report(seen, cold)


def _report(seen: list[Seen], cold: Seen) -> int:
    for number, one in enumerate(seen, start=1):
        read, made = (one.usage[f"cache_{part}_input_tokens"] for part in ("read", "creation"))
        print(
            f"request {number:2}: {one.input:6} tokens, {read:6} read, {made:5} written, "
            f"{one.share:6.1%}, first event after {one.first * 1e3:8.1f} ms"
        )
    heads, least = {one.head for one in seen}, min(one.share for one in seen[1:])
    warm = statistics.median(one.first for one in seen[1:])
    print(f"cold, the last request: {cold.input:6} tokens, {cold.first * 1e3:8.1f} ms")
    print(f"read from the cache from the second request on: at least {least:.1%}")
    print(f"beginnings of prompts: {len(heads)}; cold / warm: {cold.first / warm:.1f}")
    return int(least < LEAST or len(heads) != 1)


if __name__ == "__main__":
    raise SystemExit(main())
