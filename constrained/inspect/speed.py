"""Measures the speed of a model on this machine: prompts, generation with and without a grammar,
masks, and the time to the first token. The tests have llama-bench's names.

Each test has a share of the time. A test that would take longer is made smaller, which its name
shows (pp128 instead of pp512).
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

from constrained.agent.model import Model
from constrained.decode.filters.events import ProgressMade
from constrained.engine.protocol import Sampling
from constrained.mask.matcher import Matcher
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from grammars.turn import Think

SMALLEST = 16  # tokens of a test
PILOT_PROMPT, PILOT_TOKENS = 32, 8
SHARES = 8  # of the time; one for each test, and one for the preparation
GREEDY = Sampling(temperature=0)
SHORT_CALL: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "unit": {"enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "unit"],
    },
}
DAY = {
    "type": "object",
    "properties": {
        "date": {"type": "string", "format": "date"},
        "city": {"type": "string", "minLength": 3, "maxLength": 20},
        "hours": {"type": "integer", "minimum": 0, "maximum": 24},
        "transport": {"enum": ["train", "bus", "car", "on foot"]},
        "notes": {"type": "string", "maxLength": 40},
    },
    "required": ["date", "city", "hours", "transport", "notes"],
}
DAYS, DAY_TOKENS = 8, 80
QUESTIONS = {"get_weather": "What's the weather in Paris?", "plan_trip": "Plan a trip to Italy."}
LAST = "first token, known prompt"
MAX_CALL = 1024  # tokens


def make_long_call(days: int) -> dict[str, Any]:
    """Makes a tool whose calls have a list of this many objects."""
    rows = {"type": "array", "minItems": days, "maxItems": days, "items": DAY}
    parameters = {"type": "object", "properties": {"days": rows}, "required": ["days"]}
    return {"name": "plan_trip", "description": "Plan a trip", "parameters": parameters}


@dataclass(frozen=True)
class SpeedOptions:
    """How much is measured."""

    prompt: int = 512  # tokens of a prompt, at most (pp512)
    generated: int = 128  # tokens that are generated, at most (tg128)
    repetitions: int = 3  # of each test, at most
    seconds: float = 30.0  # for all tests; each is done once at least


@dataclass(frozen=True)
class Figure:
    """The result of a test."""

    test: str
    unit: str
    samples: tuple[float, ...]  # one for each repetition, or for each mask
    detail: str = ""
    value: float = 0.0  # the median of the samples, if it is nothing else

    def __post_init__(self) -> None:
        if not self.value:
            object.__setattr__(self, "value", median(self.samples))


def measure_speed(model: Model, options: SpeedOptions) -> Iterator[Figure]:
    """Runs the tests one after the other; yields each figure as soon as it is measured.

    Where the time is over, the tests that are left do not run: the last one is LAST.
    """
    yield from _Tests(model, options).run()


class _Tests:
    def __init__(self, model: Model, options: SpeedOptions):
        self._model = model
        self._options = options
        self._share = options.seconds / SHARES
        self._random = random.Random(0)
        vocabulary = model.engine.vocabulary
        self._ordinary = [
            token
            for token, data in enumerate(vocabulary.tokens)
            if data and token not in vocabulary.names
        ]

    def run(self) -> Iterator[Figure]:
        end = time.monotonic() + self._options.seconds
        pilot = self._generate(PILOT_PROMPT, PILOT_TOKENS)[0]
        room = self._model.engine.context_length // 2
        speed = PILOT_PROMPT / pilot.timings.prompt_seconds
        prompt = self._fit_size(min(self._options.prompt, room), speed)

        def read_prompt() -> float:
            return prompt / self._generate(prompt, 1)[0].timings.prompt_seconds

        yield self._repeat(f"pp{prompt}", "tokens/s", read_prompt)
        speed = PILOT_TOKENS / pilot.timings.generation_seconds
        size = self._fit_size(min(self._options.generated, room), speed)
        figure = self._repeat(f"tg{size}", "tokens/s", lambda: self._write(size, 1))
        yield figure
        long_call = make_long_call(self._fit_size(DAYS, figure.value / DAY_TOKENS, smallest=1))
        further = [
            self._measure_together(size, figure.value),
            self._measure_call("short call", SHORT_CALL),
            self._measure_call("long call", long_call),
            self._measure_first_token(prompt),
        ]
        for figures in further:
            if time.monotonic() > end:
                return
            yield from figures

    def _measure_together(self, size: int, speed: float) -> Iterator[Figure]:
        count = self._model.engine.max_sequences
        if count > 1:
            each = self._fit_size(size, speed / 2)
            name = f"tg{each} x {count} sequences"
            yield self._repeat(name, "tokens/s", lambda: self._write(each, count))

    def _fit_size(self, size: int, speed: float, *, smallest: int = SMALLEST) -> int:
        """Returns this number of tokens, or a half, a quarter and so on, so that the test ends in
        time."""
        while size // 2 >= smallest and size / speed > self._share:
            size //= 2
        return size

    def _repeat(self, test: str, unit: str, measure: Callable[[], float]) -> Figure:
        end = time.monotonic() + self._share
        samples: list[float] = []
        while len(samples) < self._options.repetitions:
            began = time.monotonic()
            samples.append(measure())
            now = time.monotonic()
            if now + (now - began) > end:  # another one would take too long
                break
        return Figure(test, unit, tuple(samples))

    def _write(self, size: int, count: int) -> float:
        replies = self._generate(SMALLEST, size, count)
        seconds = max(reply.timings.generation_seconds for reply in replies)
        return sum(reply.usage.completion_tokens for reply in replies) / seconds

    def _generate(self, prompt: int, generated: int, count: int = 1) -> list[Reply]:
        """Generates texts after prompts of random tokens, which are not in the cache."""
        turns: list[CompiledTurn] = []
        for _ in range(count):
            tokens = self._random.choices(self._ordinary, k=prompt)
            turns.append(self._model.compile_text(tokens, cache_prompt=False))
        return self._model.complete(turns, max_tokens=generated, sampling=GREEDY, ignore_eos=True)

    def _measure_call(self, test: str, tool: dict[str, Any]) -> Iterator[Figure]:
        """Yields the speed of a call, and how long its masks take for a grammar that is new."""
        turn = self._model.compile(self._make_job(QUESTIONS[tool["name"]], tool))
        written: list[int] = []
        kept: list[Reply] = []

        def measure() -> float:
            written.clear()
            stream = self._model.stream_turn(
                turn, max_tokens=MAX_CALL, sampling=GREEDY, progress=True
            )
            for event in stream:
                if isinstance(event, ProgressMade):
                    written.extend(event.tokens)
            kept.append(stream.result)
            return len(written) / stream.result.timings.generation_seconds

        figure = self._repeat(test, "tokens/s", measure)
        usage = kept[-1].usage
        forced = max(0, usage.completion_tokens - usage.forward_passes)
        detail = f"{usage.completion_tokens} tokens, {forced} of them forced by the grammar"
        yield replace(figure, detail=detail)
        masks = self._time_masks(turn, written)
        ordered = sorted(masks)
        last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        detail = f"{len(masks)} masks"
        yield Figure(f"{test}, mask (mean)", "ms", tuple(masks), detail, value=mean(masks))
        yield Figure(f"{test}, mask (p99)", "ms", tuple(masks), detail, value=last)

    def _make_job(self, text: str, tool: dict[str, Any]) -> Job:
        think = Think.OPTIONAL
        if self._model.compiler.format.reasoning is not None:
            think = Think.FORBIDDEN
        return Job(
            [{"role": "user", "content": text}],
            [tool],
            tool_choice="required",
            max_calls=1,
            think=think,
        )

    def _time_masks(self, turn: CompiledTurn, written: Sequence[int]) -> list[float]:
        """Milliseconds of each mask of a call, where tokens are not forced."""
        assert turn.grammar is not None
        matcher = Matcher.compile(self._model.compiler.tokenizer, turn.grammar)
        tokens = list(written[: matcher.count_accepted(written)])
        masks: list[float] = []
        while tokens:
            forced = matcher.forced()
            if forced and forced == tokens[: len(forced)]:
                matcher.try_commit(forced)
                del tokens[: len(forced)]
                continue
            began = time.perf_counter()
            matcher.compute_mask()
            masks.append((time.perf_counter() - began) * 1000)
            matcher.commit(tokens.pop(0))
        return masks

    def _measure_first_token(self, size: int) -> Iterator[Figure]:
        """Yields the time to the first token of a request with a tool: of a new prompt, of a known
        one."""
        cold: list[float] = []
        known: list[float] = []

        def measure() -> float:
            tokens = self._random.choices(self._ordinary, k=size)
            text = self._model.engine.vocabulary.text(tokens).decode("utf-8", "replace")
            cold.append(self._time_first_token(text))
            known.append(self._time_first_token(text))
            return cold[-1]

        self._repeat("", "", measure)
        detail = f"a message of {size} tokens and a tool"
        yield Figure("first token, new prompt", "ms", tuple(cold), detail)
        yield Figure(LAST, "ms", tuple(known), detail)

    def _time_first_token(self, text: str) -> float:
        """Measures the time to the first token of a reply, in milliseconds."""
        began = time.perf_counter()
        turn = self._model.compile(self._make_job(text, SHORT_CALL))
        stream = self._model.stream_turn(turn, max_tokens=MAX_CALL, sampling=GREEDY, progress=True)
        for event in stream:
            if isinstance(event, ProgressMade) and event.completion_tokens:
                break
        elapsed = (time.perf_counter() - began) * 1000
        stream.cancel()
        return elapsed
