"""Requests compiled, and compiled turns decoded: the two steps of a call, each alone."""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NoReturn, Self, TypeVar, Unpack

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.kv.snapshots import NO_CACHE, Cache
from constrained.decode.metrics import Metrics
from constrained.decode.request import DecodeOptions, Finish, Generation, Request
from constrained.decode.schedule.batch_plan import STEP
from constrained.decode.schedule.runner import Runner, TurnEngine, TurnRunner
from constrained.decode.schedule.scheduler import Schedule
from constrained.decode.schedule.streams import (
    AsyncStream,
    Sink,
    Start,
    Stream,
    Wanted,
    arun,
    check_demand,
    run,
    then,
    then_start,
)
from constrained.decode.schedule.workers import Order, Workers
from constrained.engine.options import MAX_WAITING
from constrained.engine.protocol import Engine, Sampling
from constrained.errors import GrammarError, ModelError, RequestError
from constrained.limits.deadline import Clock, Deadline, check_timeout, set_deadline
from constrained.model.call_options import (
    TRACED,
    CallOptions,
    CompiledTurnOptions,
    read_call_options,
)
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.compiler import Compiler, RawOptions
from constrained.model.confidence_policy import ConfidencePolicy, Unsure, take_back
from constrained.model.reply import Reply, has_own_ids, make_reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.turn_cache import MAX_TOKENS
from grammars.turn import Answer
from grammars.wire.format import Format

T = TypeVar("T")


class CompileQueue:
    """The threads of a model that read and compile requests; all are over by `end`."""

    def __init__(self, max_waiting: int, clock: Clock):
        self.workers = Workers("compile", max_waiting)
        self.clock = clock
        self.end: Deadline | None = None

    def prepare(
        self,
        work: Callable[[], T],
        timeout: float | None = None,
        client: Hashable = None,
        *,
        is_known: bool,
    ) -> Callable[[Wanted], Future[T]]:
        """Returns a function that queues work; its `timeout` in seconds runs from now on."""
        check_timeout(timeout)
        deadline = set_deadline(timeout, self.clock)

        def start(is_wanted: Wanted) -> Future[T]:
            order = self.order(client, is_wanted, deadline, is_known=is_known)
            return self.workers.submit(work, order)

        return start

    def order(
        self, client: Hashable, is_wanted: Wanted, deadline: Deadline | None, *, is_known: bool
    ) -> Order:
        return Order(client, is_known=is_known, check=partial(self._check, is_wanted, deadline))

    def _check(self, is_wanted: Wanted, deadline: Deadline | None) -> None:
        check_demand(is_wanted, deadline, self.clock)
        if self.end and self.end.is_over(self.clock()):
            raise self.end.fail_draining()

    def when_idle(self, free: Callable[[], None], *, is_idle: bool) -> None:
        """Frees the model: at once, or when the last thread has ended."""
        if is_idle:
            free()
            return

        def wait() -> None:
            self.workers.wait()
            free()

        threading.Thread(target=wait, daemon=True).start()


def _generate_sure(
    launch: Callable[[CompiledTurn, Sink], Future[Reply]],
    turn: CompiledTurn,
    sink: Sink,
    instead: CompiledTurn,
    policy: ConfidencePolicy,
) -> Future[Reply]:
    """Generates a turn, and another one in its place if the model was not sure of a call. Events
    wait until the reply is known, because those that were sent cannot be taken back."""
    held: list[StreamEvent] = []

    def hold(events: Sequence[StreamEvent]) -> None:
        progress = [event for event in events if isinstance(event, ProgressMade)]
        held.extend(event for event in events if not isinstance(event, ProgressMade))
        if progress:
            sink(progress)

    def choose(first: Reply) -> Future[Reply]:
        unsure = policy.find_unsure(first)
        if unsure:
            return then(launch(instead, sink), lambda reply: take_back(unsure, first, reply))
        sink(held)
        chosen = Future[Reply]()
        chosen.set_result(first)
        return chosen

    return then_start(launch(turn, hold), choose)


class TurnModel:
    """A model that takes a call in two steps: a request is compiled into a turn, and the turn is
    decoded. Servers and benchmarks use the steps; `LoadedModel` puts them together. All methods are
    safe to use from several threads.

    Its arguments are described in `constrained.Model`.
    """

    def __init__(
        self,
        engine: Engine | TurnEngine,
        template: ChatTemplate,
        tool_template: ChatTemplate | None = None,
        *,
        sampling: Sampling | None = None,
        notices: Sequence[str] = (),
        tool_format: Format | None = None,
        deterministic: bool = False,
        step: int = STEP,
        clock: Clock = time.monotonic,
        cache: Cache = NO_CACHE,
        draft: bool = True,
        max_waiting: int = MAX_WAITING,
    ):
        self.engine = engine
        self._name = template.name
        remembered = 0 if deterministic else MAX_TOKENS  # earlier turns would change prompts
        self.compiler = Compiler(
            engine.vocabulary,
            template,
            tool_template,
            tool_format=tool_format,
            remembered=remembered,
            context_length=engine.context_length,
        )
        self.sampling = sampling or Sampling()
        self.notices = (*notices, *self.compiler.notices)
        self._draft = draft
        self.queue = CompileQueue(max_waiting, clock)
        if isinstance(engine, TurnEngine):
            self._runner: TurnRunner = engine.make_runner(clock=clock, max_waiting=max_waiting)
            return
        schedule = Schedule(
            engine, step=step, deterministic=deterministic, clock=clock, cache=cache
        )
        self._runner = Runner(schedule, "decode", max_waiting=max_waiting)

    def __reduce__(self) -> NoReturn:
        """Refuses `copy`, `deepcopy` and `pickle`: it has memory and threads of its own."""
        hint = "Share the object itself between threads, and load the model in each process"
        raise ModelError("a loaded model cannot be copied or pickled", hint=hint)

    def compile(self, job: Job, timeout: float | None = None) -> CompiledTurn:
        """Compiles a request into a prompt and a grammar, for `complete` and `stream_turn`.
        `timeout`: seconds, time in the queue included. BusyError: too many requests wait;
        DeadlineError: the timeout is over."""
        return run(self._prepare_compile(job, timeout))

    async def acompile(
        self, job: Job, timeout: float | None = None, *, client: Hashable = None
    ) -> CompiledTurn:
        """Like `compile`, for asyncio; waiting clients take turns."""
        return await arun(self._prepare_compile(job, timeout, client))

    def _prepare_compile(
        self, job: Job, timeout: float | None, client: Hashable = None
    ) -> Callable[[Wanted], Future[CompiledTurn]]:
        work = partial(self.compiler.compile, job)
        return self.queue.prepare(work, timeout, client, is_known=self.compiler.knows(job))

    def compile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        timeout: float | None = None,
        **options: Unpack[RawOptions],
    ) -> CompiledTurn:
        """Compiles a raw prompt, without a chat template, for such a text; None: any text."""
        work = partial(self.compiler.compile_text, prompt, answer, **options)
        return run(self.queue.prepare(work, timeout, is_known=answer is None))

    def complete(
        self,
        turns: Sequence[CompiledTurn],
        *,
        force: bool = True,
        **options: Unpack[CompiledTurnOptions],
    ) -> list[Reply]:
        """Generates compiled turns as one batch; returns the replies in order. `force`: append
        tokens that the grammar forces (fast-forward tokens) without evaluating the model for
        them."""
        starts = self._prepare(turns, options, force=force)
        streams = [Stream(start) for start in starts]
        try:
            return [stream.result for stream in streams]
        finally:
            for stream in streams:
                stream.cancel()

    def stream_turn(
        self, turn: CompiledTurn, **options: Unpack[CompiledTurnOptions]
    ) -> Stream[Reply]:
        """Like `complete` for one turn, but returns a stream of events at once."""
        (start,) = self._prepare([turn], options)
        return Stream(start)

    def astream_turn(
        self, turn: CompiledTurn, **options: Unpack[CompiledTurnOptions]
    ) -> AsyncStream[Reply]:
        """Like `stream_turn`, for `async for`."""
        (start,) = self._prepare([turn], options)
        return AsyncStream(start)

    @property
    def _decode_defaults(self) -> DecodeOptions:
        return DecodeOptions(sampling=self.sampling, draft=self._draft)

    def _prepare(
        self, turns: Sequence[CompiledTurn], options: CompiledTurnOptions, *, force: bool = True
    ) -> list[Start[Reply]]:
        read = read_call_options(options, self._decode_defaults, force=force)
        deadline = set_deadline(read.timeout, self.queue.clock)
        start = partial(self._generate, options=read, deadline=deadline)
        return [partial(start, turn) for turn in turns]

    def _generate(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Reply]:
        is_measured = options.min_confidence is not None
        if is_measured and isinstance(self.engine, TurnEngine):
            message = "a remote engine does not report how likely its tokens are"
            raise RequestError(message, where="/min_confidence", hint="Leave it out")
        traced = options
        if is_measured:
            traced = replace(options, decode=replace(options.decode, trace=TRACED))

        def launch(turn: CompiledTurn, sink: Sink) -> Future[Reply]:
            generation = self.decode(turn, is_wanted, sink, options=traced, deadline=deadline)
            return then(generation, partial(_finish, self.compiler, turn))

        if not is_measured or options.instead is None:
            reply = launch(turn, sink)
        else:
            policy = ConfidencePolicy(options.min_confidence, Unsure.DECLINE)
            reply = _generate_sure(launch, turn, sink, options.instead, policy)
        if is_measured and not options.decode.trace:
            return then(reply, partial(replace, trace=None))
        return reply

    def decode(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Generation]:
        """Starts to decode a turn; `make_reply` makes the reply of its result. Raises at once
        BusyError or ModelError: too many requests wait, or the model is closed."""
        if options.decode.ignore_eos:
            turn.plan.check_endless()
        request = Request(
            turn.make_input(),
            options.decode,
            sink=sink,
            is_wanted=is_wanted,
            deadline=deadline,
            owner=options.owner,
        )
        generation = self._runner.submit(request)
        generation.add_done_callback(self._forget_damaged)
        return generation

    def _forget_damaged(self, generation: Future[Generation]) -> None:
        """Drops all grammars: a failed matcher has damaged data that its forks share."""
        if isinstance(generation.exception(), GrammarError):
            with suppress(ModelError):  # it was closed by now
                order = Order(is_known=True, is_bounded=False)
                self.queue.workers.submit(self.compiler.forget, order)

    def metrics(self) -> Metrics:
        """Returns the number of running and waiting requests, and the size of all caches."""
        return replace(self._runner.metrics, caches=self.compiler.measure_caches())

    def drain(self, seconds: float) -> None:
        """Prepares to stop: refuses new requests, and gives running ones so many seconds to finish;
        those that take longer fail with a `ModelError`, as do new ones."""
        self.queue.end = Deadline(self.queue.clock() + seconds, seconds)
        self._runner.drain(self.queue.end)

    def close(self) -> None:
        """Ends running and waiting requests with a `ModelError`, and frees the model when the last
        thread that uses it has ended. A second call does nothing."""
        self.drain(0)
        is_idle = self.queue.workers.close()
        try:
            self._runner.close()
        finally:
            self.queue.when_idle(self.engine.close, is_idle=is_idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _finish(compiler: Compiler, turn: CompiledTurn, generation: Generation) -> Reply:
    """Makes the reply of a turn; keeps the tokens of the turn if it is whole."""
    reply = make_reply(generation, turn)
    is_cut = generation.stopped is not None or generation.is_ended_by_text
    if generation.finish is Finish.STOP and not is_cut and has_own_ids(generation, reply):
        compiler.keep(turn, generation.tokens, reply.message())
    return reply
