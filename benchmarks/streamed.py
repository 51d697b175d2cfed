"""Random requests with fixed seeds, streamed and not: are the replies the same?

    python -m benchmarks.streamed [-m MODEL.gguf] [--requests 200] [-t THREADS]

The server is a process of its own, with deterministic steps, so that what was cached does not
matter. Tools are those of the samples; tool choice, temperature, reasoning and length are drawn.
Exit code 1 if a text, a call or the way that a reply ended differs.
"""

import argparse
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from benchmarks.inputs.tool_sets import read_rows, sample_paths
from benchmarks.load import CHAT, WORDS
from benchmarks.processes.served import serve
from constrained import embedded


def draw_body(seed: int, sets: list[Any]) -> Any:
    """Returns a request."""
    draw = random.Random(seed)
    text = " ".join(draw.choices(WORDS, k=draw.randint(3, 40)))
    return {
        "messages": [{"role": "user", "content": text}],
        "tools": draw.choice(sets),
        "tool_choice": draw.choice(("auto", "required", "none")),
        "parallel_tool_calls": draw.random() < 0.5,
        "reasoning_effort": draw.choice(("none", "low", "high")),
        "temperature": draw.choice((0, 0.7, 1.5)),
        "max_tokens": draw.randint(64, 160),
        "seed": seed,
    }


def ask_whole(client: httpx.Client, body: Any) -> Any:
    """Returns what a whole reply says; an error as its code."""
    response = client.post(CHAT, json=body)
    if response.status_code != 200:
        return response.json()["error"]["code"]
    choice = response.json()["choices"][0]
    message = choice["message"]
    calls = [
        [call["function"]["name"], call["function"]["arguments"]]
        for call in message.get("tool_calls", ())
    ]
    return [
        message.get("reasoning_content", ""),
        message["content"],
        calls,
        choice["finish_reason"],
    ]


def ask_streamed(client: httpx.Client, body: Any) -> Any:
    """Returns the same for a stream."""
    calls, finish = list[list[str]](), ""
    said = {"reasoning_content": "", "content": ""}
    with client.stream("POST", CHAT, json={**body, "stream": True}) as response:
        if response.status_code != 200:
            return json.loads(response.read())["error"]["code"]
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                return chunk["error"]["code"]
            for choice in chunk["choices"]:
                finish = choice.get("finish_reason", finish)
                for name in said:
                    said[name] += choice["delta"].get(name, "")
                for part in choice["delta"].get("tool_calls", ()):
                    if "id" in part:
                        calls.append([part["function"]["name"], ""])
                    calls[part["index"]][1] += part["function"]["arguments"]
    return [*said.values(), calls, finish]


def main() -> int:
    """Asks, compares, and prints."""
    parser = argparse.ArgumentParser(description="Streamed and whole replies.")
    parser.add_argument("-m", "--model", type=Path, default=embedded.PATH)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--tools", type=Path, nargs="*", default=sample_paths())
    options = parser.parse_args()
    sets = [row["tools"][:3] for row in read_rows(options.tools)][:40]
    arguments = ["-m", str(options.model), "-c", "2048", "-t", str(options.threads)]
    ends, differing = Counter[str](), 0
    with (
        serve([*arguments, "--deterministic", "--log-level", "error"]) as served,
        httpx.Client(base_url=served.url, timeout=600) as client,
    ):
        for seed in range(options.requests):
            body = draw_body(seed, sets)
            whole, streamed = ask_whole(client, body), ask_streamed(client, body)
            ends[whole[-1] if isinstance(whole, list) else whole] += 1
            if whole != streamed:
                differing += 1
                print(f"request {seed}: {whole} streamed: {streamed}")
    print(f"{options.requests} requests, {differing} differ; ended: {dict(ends)}")
    return int(differing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
