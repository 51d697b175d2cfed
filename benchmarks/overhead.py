"""What HTTP, parsing and coercion add to a token, at eight streams.

    python -m benchmarks.overhead [--streams 8] [--tokens 400] [--pause 20]

The engine is scripted: each decode takes `--pause` milliseconds, during which it releases the
interpreter lock as llama.cpp does, and then gives the next token of a script: a call whose
arguments are long, a character a token. Measured is the time of each character from its logits
(masks, sampling and parsing follow) until a client in another process has read it. The same is
measured for a server that only sends (`bare`): the time for waking up the event loop, for the
network and for the client itself.
"""

import argparse
import asyncio
import json
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np

from benchmarks.processes.served import serve
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.model.model import Model
from constrained.template.chat_template import ChatTemplate
from constrained.vocabulary.vocabulary import byte_vocabulary

TEMPLATE = Path(__file__).parent.parent / "examples" / "templates" / "hermes.jinja"
TURN = b"<|im_start|>assistant\n"
HEAD = '<tool_call>\n{"name": "write", "arguments": {"text": "'
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "write",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["text"],
        },
    },
}
WARM = 20  # characters that are not counted: the first ones come while the others begin


def write_text(count: int) -> str:
    """Returns what the argument is; no character is the same as the one before."""
    return "".join(chr(ord("a") + number % 26) for number in range(count))


def make_model(tokens: int, pause: float, out: Path) -> Model:
    """Returns a model that says the same to everybody, and when it is closed, writes down when it
    said each token to whom, and what the process has spent since the first one."""
    vocabulary, times = byte_vocabulary(), defaultdict[str, dict[int, float]](dict)
    said = list[tuple[str, int]]()  # of this decode
    spent = {"engine": 0.0, "engine thread": 0.0, "process": 0.0}  # seconds of a core
    first: dict[str, float] = {}  # the same, when the first decode was over
    script = HEAD + write_text(tokens) + '"}}\n</tool_call>'

    def logits(sequence: int, ids: Sequence[int]) -> np.ndarray:
        text = vocabulary.text(ids)
        start = text.rindex(TURN) + len(TURN)
        found = re.search(rb"stream (\d+)", text)
        assert found
        made = scripted_logits(vocabulary, script, start)(sequence, ids)
        said.append((found[1].decode(), len(ids) - start))
        return made

    class Paced(ScriptedEngine):
        """Takes its time."""

        def decode(self, chunks: Any) -> Any:
            time.sleep(pause)
            since = time.thread_time()
            logits = super().decode(chunks)
            spent["engine"] += time.thread_time() - since
            spent["engine thread"] = time.thread_time()
            spent["process"] = time.process_time()
            if not first:
                first.update(spent)
            now = time.monotonic()  # what the script itself takes is none of the server's time
            for stream, place in said:
                times[stream][place] = now
            said.clear()
            return logits

        def close(self) -> None:
            costs = {name: spent[name] - first[name] for name in first}
            out.write_text(json.dumps({"times": times, "costs": costs}))
            super().close()

    engine = Paced(vocabulary, logits, max_sequences=8, context_length=8192)
    return Model(engine, ChatTemplate(TEMPLATE.read_text(encoding="utf-8")), draft=False)


def run_server(port: int, tokens: int, pause: float, out: Path) -> None:
    """The server."""
    import uvicorn

    from server.app import make_app
    from server.commands.server_process import SWITCH_SECONDS

    sys.setswitchinterval(SWITCH_SECONDS)  # as `constrained serve` does
    app = make_app(lambda: make_model(tokens, pause, out))
    uvicorn.run(app, port=port, log_level="error")


async def read(client: httpx.AsyncClient, number: int) -> tuple[str, list[float]]:
    """Returns the arguments of the call, and when each character of them was read."""
    written, read_at = "", list[float]()
    body = {
        "messages": [{"role": "user", "content": f"stream {number}"}],
        "tools": [TOOL],
        "tool_choice": "required",
        "stream": True,
    }
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            now = time.monotonic()
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    written += call["function"]["arguments"]
                    read_at += [now] * (len(written) - len(read_at))
    return written, read_at


async def read_all(url: str, streams: int) -> list[tuple[str, list[float]]]:
    """Returns the same for all streams."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        return await asyncio.gather(*(read(client, number) for number in range(streams)))


def measure(options: argparse.Namespace) -> tuple[list[float], dict[str, float]]:
    """Milliseconds that were added to each character, and seconds of a core that the server has
    spent meanwhile."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "times.json")
        settings = [str(options.tokens), str(options.pause), str(out)]
        with serve([], ("benchmarks.overhead", "--server", *settings)) as served:
            streams = asyncio.run(read_all(served.url, options.streams))
        written = json.loads(out.read_text())
    said, costs = written["times"], written["costs"]
    text = write_text(options.tokens)
    added = [
        1e3 * (read_at[written.index(text) + place] - said[str(number)][str(len(HEAD) + place)])
        for number, (written, read_at) in enumerate(streams)
        for place in range(WARM, options.tokens)
    ]
    return added, costs


def measure_bare(options: argparse.Namespace) -> list[float]:
    """Milliseconds from when a character is there until the client has it, where a server does
    nothing but send."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "times.json")
        settings = [str(options.tokens), str(options.pause), str(out)]
        with serve([], ("benchmarks.processes.bare_stream", *settings)) as served:
            ((_, read_at),) = asyncio.run(read_all(served.url, 1))
        said = json.loads(out.read_text())
    return [1e3 * (read_at[place] - said[str(place)]) for place in range(WARM, options.tokens)]


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description="What the server adds to a token.")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--pause", type=float, default=20, help="milliseconds of a decode")
    parser.add_argument("--server", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        tokens, pause, out = options.server
        run_server(options.port, int(tokens), float(pause) / 1e3, Path(out))
        return
    added, costs = measure(options)
    cuts = statistics.quantiles(added, n=100)
    print(f"{len(added)} tokens of {options.streams} streams, {options.pause:g} ms a decode:")
    print(f"added: median {cuts[49]:.2f} ms, 95 % {cuts[94]:.2f} ms, 99 % {cuts[98]:.2f} ms")
    tokens = options.streams * (len(HEAD) + options.tokens)
    bare = statistics.median(measure_bare(options))
    print(f"bare: median {bare:.2f} ms for one stream, whatever the server does")
    turns = costs["engine thread"] - costs["engine"]
    rest = costs["process"] - costs["engine thread"]
    print(f"a token takes {1e3 * turns / tokens:.3f} ms of the decode thread without the engine,")
    print(f"and {1e3 * rest / tokens:.3f} ms of all others, on a core, however busy the machine is")


if __name__ == "__main__":
    sys.exit(main())
