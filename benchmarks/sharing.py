"""What requests of one model share: prefixes that are known, and the steps of the engine.

    python -m benchmarks.sharing [-m MODEL.gguf] [--turns 20] [--tokens 48]

Without a model, that of the package. Prints, each measured with fast and with deterministic steps:

- a conversation with a tool: tokens of the prompt and those computed, for each turn, and seconds to
  the first event, cold (the same prompt without a cache) and warm;
- eight requests with one prefix that nobody has computed: tokens of all prompts, and computed ones;
- tokens a second of one sequence and of eight.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained import Model, Sampling, embedded, load
from constrained.reply import Reply
from examples.first_call import TOOLS

GREEDY = Sampling(temperature=0)
CITIES = ("Paris", "Rome", "Oslo", "Lima", "Bonn", "Graz", "Lyon", "Bern")
RESULT = '{"weather": "sunny", "temperature": 24}'


@dataclass(frozen=True)
class Step:
    """A turn of the conversation: tokens of its prompt, and seconds to its first event."""

    prompt: int
    computed: int
    warm: float
    cold: float


def first_event(
    model: Model, messages: Sequence[Any], tools: Sequence[Any] = TOOLS, **options: Any
) -> tuple[float, Reply]:
    """Returns the seconds until the first event, and the reply."""
    started = time.perf_counter()
    stream = model.stream(messages, tools, **({"sampling": GREEDY, "max_tokens": 64} | options))
    seconds = 0.0
    for _ in stream:
        seconds = seconds or time.perf_counter() - started
    return seconds or time.perf_counter() - started, stream.result


def converse(path: Path, turns: int, deterministic: bool) -> list[Step]:
    """Asks about one city after the other; each turn carries all that was before."""
    messages, steps = list[Any](), list[Step]()
    options: Any = {"context_length": 0, "deterministic": deterministic}
    with load(path, **options) as warm, load(path, cache_ram=0, **options) as cold:
        for number in range(turns):
            city = CITIES[number % len(CITIES)]
            messages.append({"role": "user", "content": f"What's the weather in {city}?"})
            seconds, reply = first_event(warm, messages)
            usage = reply.usage
            cold.call("Hi", max_tokens=1)  # one sequence: what it held is gone
            unknown, _ = first_event(cold, messages)
            computed = usage.prompt_tokens - usage.cached_tokens
            steps.append(Step(usage.prompt_tokens, computed, seconds, unknown))
            if usage.prompt_tokens + 200 > warm.engine.context_length:
                break
            messages.append(reply.message())
            for call in reply.calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    return steps


def fan_out(path: Path, deterministic: bool) -> tuple[int, int]:
    """Eight requests at once: tokens of their prompts, and how many were computed."""
    with load(path, sequences=8, context_length=1024, deterministic=deterministic) as model:
        asks = [f"What's the weather in {city}?" for city in CITIES]
        with ThreadPoolExecutor(len(asks)) as pool:
            replies = list(pool.map(lambda ask: first_event(model, _say(ask))[1], asks))
    prompts = sum(reply.usage.prompt_tokens for reply in replies)
    return prompts, prompts - sum(reply.usage.cached_tokens for reply in replies)


def _say(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def throughput(path: Path, count: int, tokens: int, deterministic: bool) -> float:
    """Generated tokens a second of so many requests at once, their prompts known."""
    schema = {"type": "string", "minLength": 2 * tokens, "maxLength": 2 * tokens}
    long = {"type": "json_schema", "schema": schema}

    def ask(city: str) -> int:
        given: Any = {"response_format": long, "max_tokens": 900, "sampling": GREEDY}
        return model.call(_say(city), **given).usage.completion_tokens

    rates = list[float]()
    with (
        load(path, sequences=count, context_length=1024, deterministic=deterministic) as model,
        ThreadPoolExecutor(count) as pool,
    ):
        for _ in range(4):
            started = time.perf_counter()
            written = sum(pool.map(ask, CITIES[:count]))
            rates.append(written / (time.perf_counter() - started))
    return statistics.median(rates[1:])  # the first one has read the prompts


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="What requests of one model share.")
    parser.add_argument("-m", "--model", type=Path, default=embedded.PATH)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument(
        "--tokens", type=int, default=48, help="of a reply, about, for the throughput"
    )
    options = parser.parse_args()
    for deterministic in (False, True):
        print("deterministic" if deterministic else "fast")
        _print(options.model, options.turns, options.tokens, deterministic)


def _print(path: Path, turns: int, tokens: int, deterministic: bool) -> None:
    steps = converse(path, turns, deterministic)
    for number, step in enumerate(steps):
        print(
            f"  turn {number + 1:2}: {step.prompt:5} tokens, {step.computed:4} computed; first "
            f"event after {1000 * step.warm:6.1f} ms, cold {1000 * step.cold:6.1f} ms"
        )
    ratio = statistics.median(step.cold / step.warm for step in steps[1:])
    print(f"  cold / warm, median: {ratio:.1f}")
    prompts, computed = fan_out(path, deterministic)
    print(f"  eight requests with one prefix: {prompts} tokens, {computed} computed")
    one, eight = (throughput(path, count, tokens, deterministic) for count in (1, 8))
    print(f"  tokens/s: one sequence {one:.0f}, eight {eight:.0f} ({eight / one:.2f}x)")


if __name__ == "__main__":
    main()
