"""A model ready for calls: a GGUF file, its chat template, and what they say about tool calls."""

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeVar, Unpack, overload

from constrained.agent import run as agent
from constrained.agent.loop import RunTools
from constrained.agent.outcome import Run
from constrained.answers import Target, read_target
from constrained.compile.compiled_turn import CompiledTurn
from constrained.compile.compiler import Compiler
from constrained.deadline import Clock, Deadline, check_timeout, set_deadline
from constrained.decode.drafts.draft_model import DraftModel
from constrained.decode.filters.events import StreamEvent
from constrained.decode.request import DecodeOptions, Finish, Generation, Request
from constrained.engine.options import MOST_WAITING
from constrained.engine.protocol import Engine, Sampling
from constrained.errors import GrammarError, ModelError
from constrained.job import Job
from constrained.kv.snapshots import NO_CACHE, Cache
from constrained.metrics import Metrics
from constrained.model.call_options import (
    CallOptions,
    CompiledTurnOptions,
    GeneratedTextOptions,
    Messages,
    ModelCall,
    Options,
    ResumeOptions,
    RunOptions,
    explain_options,
    read_call,
    read_call_options,
    read_value,
)
from constrained.model.chosen_turn import check_choice, generate_chosen
from constrained.model.runners import make_runner
from constrained.prompt.turn_cache import MOST_TOKENS
from constrained.remote.remote_engine import RemoteEngine
from constrained.reply import Reply, TurnCallIds, has_own_ids, make_reply
from constrained.runs.recorded_run import ModelIdentity, begin, go_on
from constrained.schedule.scheduler import STEP
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
from grammars.turn import Answer
from grammars.wire.format import Format

T = TypeVar("T")


def _ignore(events: Sequence[StreamEvent]) -> None:
    """The sink of a caller who wants the reply alone."""


class Model:
    """A loaded model; make one with `load` or `from_llama`.

    `call` generates one turn, `run` is the agent loop, `generate` returns a value, `stream` gives
    events; `acall`, `arun`, `agenerate` and `astream` are the same for asyncio. All are safe to use
    from several threads. A model is a context manager: `with load() as model:` closes it.

    Args:
        engine: runs the model, here or elsewhere.
        template: the chat template.
        tool_template: the chat template for requests with tools, if the file has one.
        sampling: how tokens are sampled if a request does not say.
        notices: notes for the user about this model.
        tool_format: wire format of calls, in place of the one of the chat template.
        deterministic: give the same reply to the same request and seed, whatever else runs or was
            cached; slower.
        step: maximum number of tokens in one forward pass.
        clock: measures timeouts, in seconds.
        cache: where prompts and replies are kept that no longer fit into the KV cache.
        draft: speculative decoding where a turn repeats a text of the prompt.
        draft_model: a small model that drafts other texts; it is closed with this one.
        max_waiting: maximum number of waiting requests; further ones fail with a `BusyError`.

    Attributes:
        notices: notes for the user, such as options without effect.
        sampling: how tokens are sampled if a request does not say.

    Raises:
        TemplateError: the chat template is not valid.
        RequestError: the model cannot use this wire format, or the cache folder cannot be used.
    """

    def __init__(
        self,
        engine: Engine | RemoteEngine,
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
        draft_model: DraftModel | None = None,
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
        self._runner = make_runner(
            engine,
            step=step,
            deterministic=deterministic,
            clock=clock,
            cache=cache,
            draft_model=draft_model,
            most_waiting=max_waiting,
        )

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
        """Generates one assistant turn. Tools are not executed: see `run`.

        Args:
            messages: the conversation in OpenAI's form, or the text of a user message.
            tools: functions, pydantic models, dataclasses, or JSON in the form of OpenAI, Anthropic
                or MCP.
            options: listed below.

        Returns:
            The reply: content, reasoning and calls. The names of the calls exist, and their
            arguments fit the schemas.

        Raises:
            Error: one of its subclasses; it says what is wrong, where, and what to do.
        """
        return run(partial(self._start, self._read_call(messages, tools, options)))

    @explain_options
    async def acall(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """Like `call`, for asyncio. Cancelling the task cancels the turn."""
        return await arun(partial(self._start, self._read_call(messages, tools, options)))

    @explain_options
    def stream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Stream[Reply]:
        """Like `call`, but returns a stream of events at once.

        Args:
            messages: as for `call`.
            tools: as for `call`.
            options: listed below.

        Returns:
            The stream. Iterate over it for the events; `result` is the reply.

        Raises:
            Error: a request that is not valid, at once; other errors while you iterate.
        """
        return Stream(partial(self._start, self._read_call(messages, tools, options)))

    @explain_options
    def astream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> AsyncStream[Reply]:
        """Like `stream`, for `async for`."""
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
        """Generates a value of a given form. Give exactly one of the four forms.

        Args:
            messages: as for `call`.
            schema: a JSON schema as a dict, a pydantic model, or another type that pydantic knows,
                such as `list[int]`.
            regex: a regular expression that matches the whole text.
            choice: the texts to choose from.
            grammar: a grammar, in llguidance's Lark dialect or in GBNF.
            options: listed below.

        Returns:
            For `schema`, an instance of the model or type, or the JSON value; otherwise the text.

        Raises:
            Error: as for `call`; `ReplyError` also if the tokens ran out before the value ended.
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
        """Like `generate`, for asyncio. Cancelling the task cancels the turn."""
        target = read_target(schema, regex=regex, choice=choice, grammar=grammar)
        call = self._read_call(messages, None, options, target=target)
        reply = await arun(partial(self._start, call))
        return read_value(target, reply, call.job)

    @explain_options
    def run(self, messages: Messages, tools: RunTools, **options: Unpack[RunOptions]) -> Run:
        """Runs the agent loop: calls the model, executes its calls, shows it the results, and
        repeats that until it answers.

        If a function raises an exception, the model reads the message and can correct its call. If
        a turn calls a tool that has no function, or the tokens run out, the run ends and none of
        the calls of that turn is executed.

        A `tool_choice` that requires a call applies to the first turn; it is "auto" afterwards, as
        the model could never answer otherwise.

        Args:
            messages: the conversation in OpenAI's form, or the text of a user message.
            tools: as for `call`; functions, models and `FunctionTool`s can be executed. Or a
                function that is asked for them before each turn.
            options: listed below.

        Returns:
            The run: the last reply, all calls with their results, and the whole conversation.

        Raises:
            Error: as for `call`. Exceptions of your functions are not raised.
        """
        record = options.pop("record", None)
        if record is None:
            return agent.run(self, messages, tools, **options)
        with begin(record, messages, tools, options, model=self._identify()) as recorded:
            return agent.run(self, messages, tools, recorded.journal, **recorded.options)

    @explain_options
    async def arun(self, messages: Messages, tools: RunTools, **options: Unpack[RunOptions]) -> Run:
        """Like `run`, for asyncio; functions may be async, and the calls of one turn run
        concurrently."""
        record = options.pop("record", None)
        if record is None:
            return await agent.arun(self, messages, tools, **options)
        with begin(record, messages, tools, options, model=self._identify()) as recorded:
            return await agent.arun(self, messages, tools, recorded.journal, **recorded.options)

    @explain_options
    def resume(
        self,
        record: str | PathLike[str],
        id: str,
        tools: RunTools,
        **options: Unpack[ResumeOptions],
    ) -> Run:
        """Resumes a recorded run: one whose process ended, that waits for approval, or that ended
        at a limit which is higher now. No call is executed twice.

        Args:
            record: the file.
            id: the id of the run, or its first characters.
            tools: the tools that the run began with, also those that were hidden or searched;
                functions are not recorded.
            options: listed below.

        Returns:
            The run, as `run` returns it.

        Raises:
            Error: as for `run`; `RequestError` if there is no such run, or a tool is missing.
        """
        with go_on(record, id, tools, options) as recorded:
            journal, given = recorded.journal, recorded.options
            return agent.run(self, recorded.messages, recorded.tools, journal, **given)

    @explain_options
    async def aresume(
        self,
        record: str | PathLike[str],
        id: str,
        tools: RunTools,
        **options: Unpack[ResumeOptions],
    ) -> Run:
        """Like `resume`, for asyncio; functions may be async, as in `arun`."""
        with go_on(record, id, tools, options) as recorded:
            journal, given = recorded.journal, recorded.options
            return await agent.arun(self, recorded.messages, recorded.tools, journal, **given)

    def _identify(self) -> ModelIdentity:
        template = self.compiler.template
        return ModelIdentity(
            name=self._name,
            template=template.source,
            tokens=template.tokens,
            format=self.compiler.format.name,
            sampling=self.sampling,
        )

    def compile(
        self, job: Job, timeout: float | None = None, *, client: Hashable = None
    ) -> CompiledTurn:
        """Compiles a request into a prompt and a grammar, without generating anything.

        Args:
            job: the request.
            timeout: seconds until it fails, time in the queue included; None: no limit.
            client: identifies the client; waiting clients take turns.

        Returns:
            The compiled turn, for `complete`, `stream_turn` and `astream_turn`.

        Raises:
            Error: a request that is not valid.
            BusyError: too many requests are waiting.
            DeadlineError: the timeout is over.
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
        """Like `compile`, for asyncio.

        Args:
            job: the request.
            timeout: see `compile`.
            client: see `compile`.
            is_known: the answer of `Compiler.knows`, if you have it: True if the grammar is in the
                cache. None: look it up.
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
        """Compiles a raw prompt, without a chat template.

        Args:
            prompt: the text, or its token ids.
            answer: the form of the generated text; None: any text.
            timeout: see `compile`.
            client: see `compile`.
            cache_salt: see `Options`.
            cache_prompt: see `Options`.

        Returns:
            The compiled turn.

        Raises:
            Error: as for `compile`.
        """
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
        """Like `compile_text`, for asyncio."""
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
        """Runs a function in one of the threads that compile, in the order of the queue.

        Args:
            read: the function, which reads a request.
            timeout: see `compile`.
            client: see `compile`.
            quick: False if the request has a schema or grammar to compile.

        Returns:
            What the function returns.
        """
        return await arun(self._queue(read, timeout, client, is_known=quick))

    def complete(
        self,
        turns: Sequence[CompiledTurn],
        *,
        force: bool = True,
        **options: Unpack[CompiledTurnOptions],
    ) -> list[Reply]:
        """Generates several compiled turns together, as one batch.

        Args:
            turns: the results of `compile`.
            force: append tokens that the grammar forces (fast-forward tokens) without evaluating
                the model for them.
            options: those of `CompiledTurnOptions`, and of decoding.

        Returns:
            The replies, in the order of the turns.

        Raises:
            Error: as for `call`.
        """
        call_options = read_call_options(options, self._decode_defaults, force=force)
        starts = self._prepare(turns, call_options)
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
        (start,) = self._prepare([turn], read_call_options(options, self._decode_defaults))
        return Stream(start)

    def astream_turn(
        self, turn: CompiledTurn, **options: Unpack[CompiledTurnOptions]
    ) -> AsyncStream[Reply]:
        """Like `stream_turn`, for `async for`.

        Raises:
            BusyError: too many requests are waiting.
            ModelError: the model is closed.
        """
        (start,) = self._prepare([turn], read_call_options(options, self._decode_defaults))
        return AsyncStream(start)

    @property
    def _decode_defaults(self) -> DecodeOptions:
        return DecodeOptions(sampling=self.sampling, draft=self._draft)

    def _prepare(self, turns: Sequence[CompiledTurn], options: CallOptions) -> list[Start[Reply]]:
        """Functions that start the turns; their time runs from now on."""
        deadline = set_deadline(options.timeout, self._clock)
        start = partial(self._generate, options=options, deadline=deadline)
        return [partial(start, turn) for turn in turns]

    def _queue_job(
        self, job: Job, timeout: float | None, client: Hashable, *, is_known: bool
    ) -> Callable[[Wanted], Future[CompiledTurn]]:
        return self._queue(partial(self.compiler.compile, job), timeout, client, is_known=is_known)

    def _queue(
        self,
        work: Callable[[], T],
        timeout: float | None,
        client: Hashable,
        *,
        is_known: bool,
    ) -> Callable[[Wanted], Future[T]]:
        check_timeout(timeout)
        deadline = set_deadline(timeout, self._clock)

        def start(is_wanted: Wanted) -> Future[T]:
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
            named = TurnCallIds(turn).name_calls(sink)
            return self._generate(turn, is_wanted, named, options=call.options, deadline=deadline)

        check = partial(self._check, is_wanted, deadline)
        is_known = self.compiler.knows(call.job)
        order = Order(call.options.owner, is_known=is_known, check=check)
        return self._workers.start(compile, order)

    def _generate(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Reply]:
        def launch(turn: CompiledTurn, sink: Sink, *, options: CallOptions) -> Future[Reply]:
            generation = self.decode(turn, is_wanted, sink, options=options, deadline=deadline)
            return then(generation, partial(self._finish, turn))

        check_choice(options, self.engine)
        return generate_chosen(launch, turn, sink, options)

    def decode(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Generation]:
        """Starts the decoding of a turn; what comes of it is no reply yet.

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
        if generation.finish is Finish.STOP and not is_cut and has_own_ids(generation, reply):
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
        """Returns the number of running and waiting requests, and the size of all caches."""
        return replace(self._runner.metrics, caches=self.compiler.measure_caches())

    def drain(self, seconds: float) -> None:
        """Prepares to stop: refuses new requests, and gives running ones time to finish.

        Args:
            seconds: requests that take longer fail with a `ModelError`, as do new ones.
        """
        self._end = Deadline(self._clock() + seconds, seconds)
        self._runner.drain(self._end)

    def close(self) -> None:
        """Waits for the requests in the queue, then frees the model."""
        self._workers.close()
        try:
            self._runner.close()
        finally:
            self.engine.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
