"""A model ready for calls: a GGUF file, its chat template, and what they say about tool calls."""

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from constrained.answers import Target, read_target
from constrained.compile.compiled_turn import CompiledTurn
from constrained.compile.compiler import Compiler
from constrained.deadline import Clock, Deadline, check_timeout, set_deadline
from constrained.decode.filters.events import StreamEvent
from constrained.decode.request import DecodeOptions, Finish, Generation, Request
from constrained.engine.options import MOST_WAITING
from constrained.engine.protocol import Engine, Sampling
from constrained.errors import GrammarError, ModelError
from constrained.job import Job
from constrained.kv.snapshots import NO_CACHE, Cache
from constrained.metrics import Metrics
from constrained.model import agent
from constrained.model.agent import Run, RunOptions
from constrained.model.call_options import (
    CallOptions,
    GeneratedTextOptions,
    Messages,
    ModelCall,
    Options,
    TurnOptions,
    explain_options,
    read_call,
    read_call_options,
    read_value,
)
from constrained.prompt.turn_cache import MOST_TOKENS
from constrained.reply import Reply, make_reply
from constrained.schedule.runner import Runner
from constrained.schedule.scheduler import STEP, Schedule
from constrained.schedule.worker import (
    AsyncStream,
    Sink,
    Start,
    Stream,
    Wanted,
    arun,
    check_demand,
    run,
    then,
)
from constrained.schedule.workers import Order, Workers
from constrained.template.chat_template import ChatTemplate
from grammars.turn import Answer, CallRead
from grammars.wire.format import Format

T = TypeVar("T")


def _ignore(events: Sequence[StreamEvent]) -> None:
    """The sink of a caller who wants the reply alone."""


def _has_own_ids(generation: Generation, reply: Reply) -> bool:
    """True if each call has the id that the model wrote, if it wrote one. A call whose id was
    replaced, because another one has it, is not what the model wrote."""
    written = [event.call.id for event in generation.events if isinstance(event, CallRead)]
    return all(id in (None, call.id) for id, call in zip(written, reply.calls, strict=False))


class Model:
    """One model in this process. Requests of several threads or tasks queue for it.

    Args:
        engine: runs the model.
        template: its chat template.
        tool_template: what is used in its place where tools are offered.
        sampling: how tokens are drawn where a request does not say.
        notices: what whoever loads the model should know.
        tool_format: the format of calls, in place of the one that the template teaches.
        deterministic: the same request with the same seed gives the same reply, whatever else runs
            or was cached; slower.
        step: tokens of one decode, at most.
        clock: what timeouts are measured with, in seconds.
        cache: how much is kept of prompts and replies that others have taken the place of.
        draft: where a turn repeats a text, let the model look at several tokens of it together.
        max_waiting: how many requests may wait to be compiled, and how many to be admitted; further
            ones fail with a BusyError.

    Raises:
        TemplateError: the template is broken.
        RequestError: the format cannot be taught to this model, or the folder of the cache cannot
            be used.
    """

    def __init__(
        self,
        engine: Engine,
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
        max_waiting: int = MOST_WAITING,
    ):
        self.engine = engine
        self._name = template.name
        remembered = 0 if deterministic else MOST_TOKENS  # what was before would change prompts
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
        self._workers = Workers("compile", max_waiting)
        self._clock = clock
        self._end: Deadline | None = None  # of the process
        schedule = Schedule(
            engine, step=step, deterministic=deterministic, clock=clock, cache=cache
        )
        self._runner = Runner(schedule, "decode", most_waiting=max_waiting)

    def __repr__(self) -> str:
        engine = self.engine
        return (
            f"<Model {self._name}: tool format {self.compiler.format.name}, "
            f"context {engine.context_length}, sequences {engine.max_sequences}>"
        )

    @explain_options
    def call(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """Generates one assistant turn.

        Args:
            messages: the conversation, or the text of a user message.
            tools: what may be called: functions, pydantic models, or JSON in the shapes of OpenAI,
                Anthropic and MCP.
            options: see `Options`.

        Raises:
            Error: one of `constrained.errors` or `grammars.errors`; says what, where, what to do.
        """
        return run(partial(self._start, self._read_call(messages, tools, options)))

    @explain_options
    async def acall(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """As `call`. Cancelling the task ends the turn within one step."""
        return await arun(partial(self._start, self._read_call(messages, tools, options)))

    @explain_options
    def stream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Stream[Reply]:
        """As `call`, with the events of `grammars.turn` as they come, and a `TokenDrawn` for each
        token if `logprobs` are asked for; `result` is the reply."""
        return Stream(partial(self._start, self._read_call(messages, tools, options)))

    @explain_options
    def astream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> AsyncStream[Reply]:
        """As `stream`, for `async for`."""
        return AsyncStream(partial(self._start, self._read_call(messages, tools, options)))

    @overload
    def generate(self, messages: Messages, *, schema: type[T], **options: Unpack[Options]) -> T: ...

    @overload
    def generate(self, messages: Messages, **options: Unpack[GeneratedTextOptions]) -> str: ...

    @overload
    def generate(
        self, messages: Messages, *, schema: Any, **options: Unpack[GeneratedTextOptions]
    ) -> Any: ...

    @explain_options
    def generate(
        self,
        messages: Messages,
        *,
        schema: Any = None,
        regex: str | None = None,
        choice: Sequence[str] | None = None,
        grammar: str | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """Generates a value: see `read_target` for what can be asked for.

        Returns:
            a JSON value, or an instance of the pydantic model or type; text otherwise.

        Raises:
            Error: as in `call`; ReplyError also if the tokens ran out.
        """
        target = read_target(schema, regex=regex, choice=choice, grammar=grammar)
        call = self._read_call(messages, None, options, target=target)
        reply = run(partial(self._start, call))
        return read_value(target, reply, call.job)

    @overload
    async def agenerate(
        self, messages: Messages, *, schema: type[T], **options: Unpack[Options]
    ) -> T: ...

    @overload
    async def agenerate(
        self, messages: Messages, **options: Unpack[GeneratedTextOptions]
    ) -> str: ...

    @overload
    async def agenerate(
        self, messages: Messages, *, schema: Any, **options: Unpack[GeneratedTextOptions]
    ) -> Any: ...

    @explain_options
    async def agenerate(
        self,
        messages: Messages,
        *,
        schema: Any = None,
        regex: str | None = None,
        choice: Sequence[str] | None = None,
        grammar: str | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """As `generate`. Cancelling the task ends the turn within one step."""
        target = read_target(schema, regex=regex, choice=choice, grammar=grammar)
        call = self._read_call(messages, None, options, target=target)
        reply = await arun(partial(self._start, call))
        return read_value(target, reply, call.job)

    @explain_options
    def run(self, messages: Messages, tools: Sequence[Any], **options: Unpack[RunOptions]) -> Run:
        """Calls the model and the functions it asks for, until it answers; see `agent.run`."""
        return agent.run(self, messages, tools, **options)

    @explain_options
    async def arun(
        self, messages: Messages, tools: Sequence[Any], **options: Unpack[RunOptions]
    ) -> Run:
        """As `run`; the calls of one turn run concurrently."""
        return await agent.arun(self, messages, tools, **options)

    def compile(
        self, job: Job, timeout: float | None = None, *, client: Hashable = None
    ) -> CompiledTurn:
        """The prompt and the grammar of a job; see `Compiler.compile`.

        Args:
            timeout: seconds that it may take, others that are compiled before it included; any
                time if not given.
            client: who asks; clients have their turns, whatever each of them asks for.

        Raises:
            BusyError: too many wait already.
            DeadlineError: its time was over.
        """
        is_known = self.compiler.knows(job)
        return run(self._queue_job(job, timeout, client, is_known=is_known))

    async def acompile(
        self,
        job: Job,
        timeout: float | None = None,
        *,
        client: Hashable = None,
        is_known: bool | None = None,
    ) -> CompiledTurn:
        """As `compile`. Cancelling the task ends the work.

        Args:
            is_known: what `Compiler.knows` says of the job; None: it is asked, which takes
                milliseconds where there are many tools.
        """
        if is_known is None:
            is_known = self.compiler.knows(job)
        return await arun(self._queue_job(job, timeout, client, is_known=is_known))

    def compile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        timeout: float | None = None,
        *,
        client: Hashable = None,
        cache_salt: str | None = None,
        cache_prompt: bool = True,
    ) -> CompiledTurn:
        """A turn behind a prompt that no template writes; see `Compiler.compile_text`, and
        `compile` for the rest."""
        work = partial(
            self.compiler.compile_text,
            prompt,
            answer,
            cache_salt=cache_salt,
            cache_prompt=cache_prompt,
        )
        return run(self._queue(work, timeout, client, is_known=answer is None))

    async def acompile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        timeout: float | None = None,
        *,
        client: Hashable = None,
        cache_salt: str | None = None,
        cache_prompt: bool = True,
    ) -> CompiledTurn:
        """As `compile_text`."""
        work = partial(
            self.compiler.compile_text,
            prompt,
            answer,
            cache_salt=cache_salt,
            cache_prompt=cache_prompt,
        )
        return await arun(self._queue(work, timeout, client, is_known=answer is None))

    async def aread(
        self,
        read: Callable[[], T],
        timeout: float | None = None,
        *,
        client: Hashable = None,
        quick: bool = True,
    ) -> T:
        """Reads a request in a thread that compiles; cancelling the task ends that.

        Args:
            read: what is done.
            timeout: as in `compile`.
            client: as in `compile`.
            quick: there is no schema or grammar in it.
        """
        deadline = set_deadline(timeout, self._clock)

        def start(is_wanted: Wanted) -> Future[T]:
            check = partial(self._check, is_wanted, deadline)
            return self._workers.submit(read, Order(client, is_known=quick, check=check))

        return await arun(start)

    def complete(
        self, turns: Sequence[CompiledTurn], *, force: bool = True, **options: Unpack[TurnOptions]
    ) -> list[Reply]:
        """Generates several turns together; see `generate` and `make_reply` for the errors.

        Args:
            force: take fast-forward tokens (those that the grammar forces) without asking the
                model.
            options: see `Options`; the timeout is that of all of them.
        """
        call_options = read_call_options(options, self._decode_defaults, force=force)
        starts = self._prepare(turns, call_options)
        streams = [Stream(start) for start in starts]
        try:
            return [stream.result for stream in streams]
        finally:
            for stream in streams:
                stream.cancel()

    def stream_turn(self, turn: CompiledTurn, **options: Unpack[TurnOptions]) -> Stream[Reply]:
        """As `complete` for one turn, with its events as they come."""
        (start,) = self._prepare([turn], read_call_options(options, self._decode_defaults))
        return Stream(start)

    def astream_turn(
        self, turn: CompiledTurn, **options: Unpack[TurnOptions]
    ) -> AsyncStream[Reply]:
        """As `stream_turn`, for `async for`.

        Raises:
            BusyError, ModelError: at once: too many requests wait, or the model is closed.
        """
        (start,) = self._prepare([turn], read_call_options(options, self._decode_defaults))
        return AsyncStream(start)

    @property
    def _decode_defaults(self) -> DecodeOptions:
        return DecodeOptions(sampling=self.sampling, draft=self._draft)

    def _prepare(self, turns: Sequence[CompiledTurn], options: CallOptions) -> list[Start[Reply]]:
        """Functions that start the turns; their time runs from now on."""
        deadline = set_deadline(options.timeout, self._clock)
        launch = partial(self._launch, options=options, deadline=deadline)
        return [partial(launch, turn) for turn in turns]

    def _queue_job(
        self, job: Job, timeout: float | None, client: Hashable, *, is_known: bool
    ) -> Callable[[Wanted], Future[CompiledTurn]]:
        work = partial(self.compiler.compile, job)
        return self._queue(work, timeout, client, is_known=is_known)

    def _queue(
        self,
        work: Callable[[], CompiledTurn],
        timeout: float | None,
        client: Hashable,
        *,
        is_known: bool,
    ) -> Callable[[Wanted], Future[CompiledTurn]]:
        check_timeout(timeout)
        deadline = set_deadline(timeout, self._clock)

        def start(is_wanted: Wanted) -> Future[CompiledTurn]:
            check = partial(self._check, is_wanted, deadline)
            return self._workers.submit(work, Order(client, is_known=is_known, check=check))

        return start

    def _check(self, is_wanted: Wanted, deadline: Deadline | None) -> None:
        """Raises what ends a request before its turn is decoded."""
        check_demand(is_wanted, deadline, self._clock)
        if self._end and self._end.is_over(self._clock()):
            raise self._end.fail_draining()

    def _read_call(
        self,
        messages: Messages,
        tools: Sequence[Any] | None,
        options: Options,
        *,
        target: Target | None = None,
    ) -> ModelCall:
        return read_call(messages, tools, options, defaults=self._decode_defaults, target=target)

    def _start(self, call: ModelCall, is_wanted: Wanted, sink: Sink = _ignore) -> Future[Reply]:
        deadline = set_deadline(call.options.timeout, self._clock)

        def compile() -> Future[Reply]:
            turn = self.compiler.compile(call.job)
            return self._launch(turn, is_wanted, sink, options=call.options, deadline=deadline)

        check = partial(self._check, is_wanted, deadline)
        is_known = self.compiler.knows(call.job)
        order = Order(call.options.owner, is_known=is_known, check=check)
        return self._workers.start(compile, order)

    def _launch(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Reply]:
        generation = self.decode(turn, is_wanted, sink, options=options, deadline=deadline)
        return then(generation, partial(self._finish, turn))

    def decode(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Generation]:
        """Starts the decoding of a turn; what comes of it is no reply yet, and nothing is kept of
        it.

        Args:
            turn: compiled for this model.
            is_wanted: True while somebody waits for it.
            sink: takes the events as they come.
            options: of the decoding.
            deadline: on the clock of the model.

        Raises:
            BusyError, ModelError: at once: too many requests wait, or the model is closed.
        """
        if options.decode.ignore_eos:
            turn.check_endless()
        request = Request(
            turn.make_input(),
            options.decode,
            sink=sink,
            is_wanted=is_wanted,
            deadline=deadline,
            owner=options.owner,
            background=options.background,
        )
        generation = self._runner.submit(request)
        generation.add_done_callback(self._note_failure)
        return generation

    def _finish(self, turn: CompiledTurn, generation: Generation) -> Reply:
        reply = make_reply(generation, turn)
        is_cut = generation.stopped is not None or generation.is_ended_by_text
        if generation.finish is Finish.STOP and not is_cut and _has_own_ids(generation, reply):
            self.compiler.keep(turn, generation.tokens, reply.message())
        return reply

    def _note_failure(self, generation: Future[Generation]) -> None:
        """A matcher that has failed has spoilt what its forks share: it is compiled anew."""
        if isinstance(generation.exception(), GrammarError):
            with suppress(ModelError):  # closed meanwhile
                order = Order(is_known=True, is_bounded=False)
                self._workers.submit(self.compiler.forget, order)

    @property
    def clock(self) -> Clock:
        """What timeouts are measured with, in seconds."""
        return self._clock

    def metrics(self) -> Metrics:
        """The figures of requests under way, of the KV cache (sequences, snapshots in memory and on
        disk), and of the other caches."""
        return replace(self._runner.metrics, caches=self.compiler.measure_caches())

    def drain(self, seconds: float) -> None:
        """Ends all requests within so many seconds: those that are not done by then fail with a
        `ModelError`, and so does what comes later. For a process that is about to end."""
        self._end = Deadline(self._clock() + seconds, seconds)
        self._runner.drain(self._end)

    def close(self) -> None:
        """Frees the model when the requests in the queue are done."""
        self._workers.close()
        try:
            self._runner.close()
        finally:
            self.engine.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
