"""How long clients wait for each other, by the number of sequences: what the default should be.

    python -m benchmarks.queueing [-m smollm2] [--clients 8] [--sequences 1 2 4 8] [--turns 3]

Each client has a conversation of its own about one of eight tools, and sends its next turn as soon
as it has the reply to the last one. All runs have the same turns, one after the other. Prints
seconds from request to reply, all clients: median and longest; then replies a minute, and the
memory of the process.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from constrained.engine.protocol import Sampling
from constrained.model.loading import load
from constrained.model.model import Model

CITIES = ("Paris", "London", "Berlin", "Madrid", "Rome", "Vienna", "Oslo", "Athens")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.queueing", description="Waiting by sequences."
    )
    parser.add_argument("-m", "--model", default="smollm2")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("-c", "--context", type=int, default=2048)
    options = parser.parse_args()
    print(f"{options.clients} clients, {options.turns} turns each")
    print("sequences   median s  longest s  replies/min  memory MB")
    for sequences in options.sequences:
        with load(options.model, sequences=sequences, context_length=options.context) as model:
            started = time.monotonic()
            with ThreadPoolExecutor(options.clients) as pool:
                waits = [
                    pool.submit(run_client, model, number, options.turns)
                    for number in range(options.clients)
                ]
                seconds = [second for wait in waits for second in wait.result()]
            total = time.monotonic() - started
            print(
                f"{sequences:9}   {statistics.median(seconds):8.1f}  {max(seconds):9.1f}  "
                f"{len(seconds) * 60 / total:11.1f}  {read_memory():9.0f}",
                flush=True,
            )
        gc.collect()


def run_client(model: Model, number: int, turns: int) -> list[float]:
    """Sends the turns of one conversation; the seconds that each reply took."""
    tools = [describe_tool(number), describe_tool(number + 1)]
    messages: list[dict[str, Any]] = []
    seconds: list[float] = []
    for turn in range(turns):
        city = CITIES[(number + turn) % len(CITIES)]
        messages.append({"role": "user", "content": f"What is the weather in {city} tomorrow?"})
        started = time.monotonic()
        reply = model.call(
            messages, tools, tool_choice="required", sampling=Sampling(temperature=0), max_tokens=96
        )
        seconds.append(time.monotonic() - started)
        messages.append(reply.message())
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}
            for call in reply.calls
        ]
    return seconds


def describe_tool(number: int) -> dict[str, Any]:
    """Returns one of eight tools with different names and descriptions."""
    city = CITIES[number % len(CITIES)]
    properties = {
        "city": {"type": "string", "description": f"A city, such as {city}"},
        "day": {"type": "string", "description": "A day, by its name or date"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    }
    parameters = {"type": "object", "properties": properties, "required": ["city", "day"]}
    description = f"The weather of a city as the station of {city} foretells it"
    function = {
        "name": f"get_weather_{number % len(CITIES)}",
        "description": description,
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


def read_memory() -> float:
    """Megabytes that this process has in memory now."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines: Sequence[str] = status.readlines()
    line = next(line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
