"""The local engine as a sampler: for a process that samples tokens for fronts elsewhere."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.request import DecodeInput, DecodeOptions, Finish, Generation, Request
from constrained.decode.schedule.runner import Runner
from constrained.decode.schedule.scheduler import Schedule
from constrained.engine.protocol import Engine
from constrained.engine.vocabulary.vocabulary import build_tokenizer
from constrained.mask.logprobs import TokenDrawn
from constrained.mask.matcher import Matcher
from constrained.prompt.prompts import TEXT
from constrained.remote.sampler import (
    EndReason,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SamplerLimits,
)
from grammars.parse.parser import Parser
from grammars.turn import State

GRAMMARS = 64  # the size of the cache


class LocalSampler:
    """A `TokenSampler` on an engine of this process; it closes the engine.

    Args:
        engine: samples the tokens.
        name: of the sampler.
    """

    def __init__(self, engine: Engine, name: str = "local engine"):
        self.name = name
        self.vocabulary = engine.vocabulary
        self.limits = SamplerLimits(engine.context_length, engine.max_sequences, lacks=())
        self._engine = engine
        self._runner = Runner(Schedule(engine), "decode")
        self._compile = lru_cache(GRAMMARS)(
            partial(Matcher.compile, build_tokenizer(engine.vocabulary, ()))
        )

    def check(self, request: SampleRequest) -> None:
        pass  # nothing to refuse

    async def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Sequence[StreamEvent] | None] = asyncio.Queue()
        is_wanted = True

        def sink(events: Sequence[StreamEvent] | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, events)

        turn = DecodeInput(
            prompt=request.prompt,
            make_parser=lambda: Parser(TEXT, (), State(), calls=False),
            matcher=await asyncio.to_thread(self._find_matcher, request.grammar),
            scope=request.cache_salt,
        )
        # Every token is sampled: forced tokens might be split differently from sampled ones.
        options = DecodeOptions(
            max_tokens=request.max_tokens,
            sampling=request.sampling,
            logprobs=request.logprobs,
            force=False,
            progress=True,
            ignore_eos=request.ignore_eos,
        )
        result = self._runner.submit(Request(turn, options, sink, is_wanted=lambda: is_wanted))
        result.add_done_callback(lambda done: sink(None))
        try:
            count = 0
            while (events := await queue.get()) is not None:
                for sampled in _read_tokens(events):
                    count += 1
                    yield sampled
            yield self._end(result, count)
        finally:
            is_wanted = False

    def _find_matcher(self, grammar: str | None) -> Matcher | None:
        return None if grammar is None else self._compile(grammar).fork()

    def _end(self, result: Future[Generation], count: int) -> SampleEnd:
        generation = result.result()  # raises the error of a failed turn
        reason = EndReason.STOP if generation.finish is Finish.STOP else EndReason.LENGTH
        return SampleEnd(reason, count, generation.usage.cached_tokens)

    async def close(self) -> None:
        await asyncio.to_thread(self._runner.close)
        self._engine.close()


def _read_tokens(events: Sequence[StreamEvent]) -> list[SampledToken]:
    """Returns the tokens in these events, with their probabilities if they have any."""
    tokens: list[int] = []
    scored: dict[int, TokenDrawn] = {}
    for event in events:
        match event:
            case ProgressMade():
                tokens += event.tokens
            case TokenDrawn():
                scored[event.token] = event
            case _:
                pass
    read: list[SampledToken] = []
    for token in tokens:
        sampled = scored.get(token)
        if sampled is None:
            read.append(SampledToken(token))
        else:
            read.append(SampledToken(token, sampled.logprob, dict(sampled.top)))
    return read
