"""A model ready for calls: a GGUF file, its chat template, and what they say about tool calls."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, TypeVar, Unpack

from constrained.answers import read_target
from constrained.compile.compiler import Compiler
from constrained.deadline import Clock, Deadline, check_timeout, set_deadline
from constrained.decode.events import StreamEvent
from constrained.decode.request import Finish, Generation, Request
from constrained.engine.options import MOST_WAITING
from constrained.engine.protocol import Engine, Sampling
from constrained.errors import GrammarError, ModelError
from constrained.job import CompiledTurn, Job
from constrained.kv.snapshots import NO_CACHE, Cache
from constrained.metrics import Metrics
from constrained.model import agent
from constrained.model.agent import Approve, Run
from constrained.model.call_options import (
    Limits,
    Messages,
    Options,
    Order,
    TurnOptions,
    finish,
    read_limits,
    read_order,
)
from constrained.prompt.turn_cache import MOST_TOKENS
from constrained.reply import Reply, make_reply
from constrained.schedule.runner import Runner
from constrained.schedule.scheduler import STEP
from constrained.schedule.worker import (
    AsyncStream,
    Sink,
    Start,
    Stream,
    Wanted,
    Worker,
    arun,
    run,
    then,
)
from constrained.template.chat_template import ChatTemplate
from grammars.turn import Answer, CallRead
from grammars.wire.format import Format

T = TypeVar("T")


def _ignore(events: Sequence[StreamEvent]) -> None:
    """For whoever wants the reply alone."""


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
        remembered = 0 if deterministic else MOST_TOKENS  # what was before would change prompts
        self.compiler = Compiler(
            engine.vocabulary,
            template,
            tool_template,
            tool_format,
            remembered,
            engine.context_length,
        )
        self.sampling = sampling or Sampling()
        self.notices = (*notices, *self.compiler.notices)
        self._draft = draft
        self._worker = Worker("compile", max_waiting)
        self._clock = clock
        self._runner = Runner(
            engine,
            "decode",
            deterministic=deterministic,
            step=step,
            clock=clock,
            most_waiting=max_waiting,
            cache=cache,
        )

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
        return run(partial(self._start, read_order(messages, tools, options)))

    async def acall(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """As `call`. Cancelling the task ends the turn within one step."""
        return await arun(partial(self._start, read_order(messages, tools, options)))

    def stream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Stream[Reply]:
        """As `call`, with the events of `grammars.turn` as they come, and a `TokenDrawn` for each
        token if `logprobs` are asked for; `result` is the reply."""
        return Stream(partial(self._start, read_order(messages, tools, options)))

    def astream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> AsyncStream[Reply]:
        """As `stream`, for `async for`."""
        return AsyncStream(partial(self._start, read_order(messages, tools, options)))

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
        target = read_target(schema, regex, choice, grammar)
        order = read_order(messages, None, options, target)
        return finish(target, run(partial(self._start, order)), order)

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
        target = read_target(schema, regex, choice, grammar)
        order = read_order(messages, None, options, target)
        return finish(target, await arun(partial(self._start, order)), order)

    def run(
        self,
        messages: Messages,
        tools: Sequence[Any],
        *,
        max_steps: int = 8,
        max_repeats: int = 2,
        approve: Approve | None = None,
        **options: Unpack[Options],
    ) -> Run:
        """Calls the model and the functions it asks for, until it answers; see `agent.run`."""
        limits: Any = {"max_steps": max_steps, "max_repeats": max_repeats, "approve": approve}
        return agent.run(self, messages, tools, **limits, **options)

    async def arun(
        self,
        messages: Messages,
        tools: Sequence[Any],
        *,
        max_steps: int = 8,
        max_repeats: int = 2,
        approve: Approve | None = None,
        **options: Unpack[Options],
    ) -> Run:
        """As `run`; the calls of one turn run concurrently."""
        limits: Any = {"max_steps": max_steps, "max_repeats": max_repeats, "approve": approve}
        return await agent.arun(self, messages, tools, **limits, **options)

    def compile(self, job: Job, timeout: float | None = None) -> CompiledTurn:
        """The prompt and the grammar of a job; see `Compiler.compile`.

        Args:
            timeout: seconds that it may wait for others to be compiled; any time if not given.

        Raises:
            BusyError: too many wait already.
            DeadlineError: its time was over before it was begun.
        """
        return run(self._queue(partial(self.compiler.compile, job), timeout))

    async def acompile(self, job: Job, timeout: float | None = None) -> CompiledTurn:
        """As `compile`. Cancelling the task gives up a job that has not begun."""
        return await arun(self._queue(partial(self.compiler.compile, job), timeout))

    def compile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        timeout: float | None = None,
    ) -> CompiledTurn:
        """A turn behind a prompt that no template writes; see `Compiler.compile_text`, and
        `compile` for the timeout."""
        return run(self._queue(partial(self.compiler.compile_text, prompt, answer), timeout))

    async def acompile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        timeout: float | None = None,
    ) -> CompiledTurn:
        """As `compile_text`."""
        return await arun(self._queue(partial(self.compiler.compile_text, prompt, answer), timeout))

    def complete(
        self, turns: Sequence[CompiledTurn], *, force: bool = True, **options: Unpack[TurnOptions]
    ) -> list[Reply]:
        """Generates several turns together; see `generate` and `make_reply` for the errors.

        Args:
            force: take tokens that the grammar forces without asking the model.
            options: see `Options`; the timeout is that of all of them.
        """
        starts = self._prepare(turns, read_limits(options, force=force))
        streams = [Stream(start) for start in starts]
        try:
            return [stream.result for stream in streams]
        finally:
            for stream in streams:
                stream.cancel()

    def stream_turn(self, turn: CompiledTurn, **options: Unpack[TurnOptions]) -> Stream[Reply]:
        """As `complete` for one turn, with its events as they come."""
        (start,) = self._prepare([turn], read_limits(options))
        return Stream(start)

    def astream_turn(
        self, turn: CompiledTurn, **options: Unpack[TurnOptions]
    ) -> AsyncStream[Reply]:
        """As `stream_turn`, for `async for`.

        Raises:
            BusyError, ModelError: at once: too many requests wait, or the model is closed.
        """
        (start,) = self._prepare([turn], read_limits(options))
        return AsyncStream(start)

    def _prepare(self, turns: Sequence[CompiledTurn], limits: Limits) -> list[Start[Reply]]:
        """What starts each of the turns; their time runs from now on."""
        deadline = set_deadline(limits.timeout, self._clock)
        return [partial(self._launch, turn, limits, deadline) for turn in turns]

    def _queue(
        self, work: Callable[[], CompiledTurn], timeout: float | None
    ) -> Callable[[Wanted], Future[CompiledTurn]]:
        check_timeout(timeout)
        deadline = set_deadline(timeout, self._clock)

        def compile() -> CompiledTurn:
            self._check_wait(deadline)
            return work()

        return lambda _: self._worker.submit(compile)

    def _check_wait(self, deadline: Deadline | None) -> None:
        if deadline and deadline.is_over(self._clock()):
            raise deadline.fail_waiting()

    def _start(self, order: Order, is_wanted: Wanted, sink: Sink = _ignore) -> Future[Reply]:
        deadline = set_deadline(order.limits.timeout, self._clock)

        def compile() -> Future[Reply]:
            self._check_wait(deadline)
            turn = self.compiler.compile(order.job)
            return self._launch(turn, order.limits, deadline, is_wanted, sink)

        return self._worker.start(compile)

    def _launch(
        self,
        turn: CompiledTurn,
        limits: Limits,
        deadline: Deadline | None,
        is_wanted: Wanted,
        sink: Sink,
    ) -> Future[Reply]:
        request = Request(
            prompt=turn.tokens,
            matcher=turn.matcher.fork() if turn.matcher else None,
            parser=turn.parser,
            sampling=limits.sampling or self.sampling,
            max_tokens=limits.max_tokens,
            force=limits.force,
            budget=turn.budget,
            reserve=turn.reserve,
            sink=sink,
            is_wanted=is_wanted,
            watch=turn.watch,
            deadline=deadline,
            boundaries=turn.boundaries,
            closed=turn.closed,
            draft=self._draft,
            stops=limits.stops,
            logprobs=limits.logprobs,
            prefix=turn.prefix,
        )
        generation = self._runner.submit(request)
        generation.add_done_callback(self._note_failure)
        return then(generation, partial(self._finish, turn))

    def _finish(self, turn: CompiledTurn, made: Generation) -> Reply:
        reply = make_reply(made, turn)
        # A call whose id was replaced, for another one has it, is not what the model wrote.
        ids = [event.call.id for event in made.events if isinstance(event, CallRead)]
        is_own = all(id in (None, call.id) for id, call in zip(ids, reply.calls, strict=False))
        is_whole = made.finish is Finish.STOP and made.stopped is None
        if is_whole and is_own:
            self.compiler.prompts.keep(turn, made.tokens, reply.message())
        return reply

    def _note_failure(self, generation: Future[Generation]) -> None:
        """A matcher that has failed has spoilt what its forks share: it is compiled anew."""
        if isinstance(generation.exception(), GrammarError):
            with suppress(ModelError):  # closed meanwhile
                self._worker.submit(self.compiler.forget, is_bounded=False)

    def metrics(self) -> Metrics:
        """What is held of earlier requests: sequences, snapshots in memory and on disk."""
        return self._runner.metrics

    def close(self) -> None:
        """Frees the model when the requests in the queue are done."""
        self._worker.close()
        try:
            self._runner.close()
        finally:
            self.engine.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
