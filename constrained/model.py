"""A model ready for calls: a GGUF file, its chat template, and what they say about tool calls."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack

from constrained import agent
from constrained.agent import Approve, Run
from constrained.answers import Target, read_response_format, read_target
from constrained.compiling import Compiler
from constrained.deadline import Clock, Deadline, check_timeout, set_deadline
from constrained.decoded import MOST_TOKENS
from constrained.engine.protocol import Engine, Sampling
from constrained.errors import GrammarError, ModelError, ReplyError, RequestError
from constrained.job import CompiledTurn, Job
from constrained.messages import copy_json
from constrained.metrics import Metrics
from constrained.reply import Reply, make_reply
from constrained.request import Finish, Generation, Request
from constrained.runner import Runner
from constrained.schedule import STEP
from constrained.snapshots import NO_CACHE, Cache
from constrained.splicing import Recall
from constrained.template import ChatTemplate
from constrained.worker import AsyncStream, Sink, Stream, Wanted, Worker, arun, run, then
from grammars.turn import Event, KeyOrder, Think
from grammars.wire import Format

T = TypeVar("T")
LIMITS = ("max_tokens", "sampling", "timeout")  # options that are no part of a `Job`
Messages = Sequence[Mapping[str, Any]] | str


class Options(TypedDict, total=False):
    """What a request may say, beside its messages and tools.

    tool_choice: "auto", "none", "required", or a tool, in the OpenAI or Anthropic form.
    parallel: whether one turn may hold several calls.
    response_format: what an answer has to be, in the OpenAI form, or a pydantic model.
    max_tokens: generate at most so many tokens; 1,024 if not given.
    sampling: how tokens are drawn; as the model's file recommends if not given.
    think: whether the turn reasons first.
    reasoning_budget: at most so many tokens of reasoning.
    reasoning_close: a sentence that ends a reasoning whose budget is spent.
    template_kwargs: variables for the chat template (`enable_thinking`).
    thinking_tags: whether `<thinking>` at the head of a turn is reasoning; it is if not given.
    require_nonempty: a required string argument has at least one character.
    drop_tools: leave out tools whose schemas cannot be enforced, and name them in the reply, which
        is what happens if not given; False: they are an error.
    key_order: in which order objects have their declared keys; "any" if not given, or "schema".
    recall: whether the model sees the reasoning of its earlier turns: "keep", "drop" (as the chat
        template wants it), or, if not given, "auto": until the next message of the user.
    timeout: seconds from when the request is made; if it is not done by then, it fails with a
        DeadlineError. Any time if not given. Of a `run`, for each turn.
    """

    tool_choice: Any
    parallel: bool
    response_format: Any
    max_tokens: int
    sampling: Sampling | None
    think: Think
    reasoning_budget: int | None
    reasoning_close: str
    template_kwargs: Mapping[str, Any]
    thinking_tags: bool
    require_nonempty: bool
    drop_tools: bool
    key_order: KeyOrder
    recall: Recall
    timeout: float | None


@dataclass(frozen=True)
class _Limits:
    """How a turn is generated; what a `Job` does not say."""

    max_tokens: int = 1024
    sampling: Sampling | None = None
    force: bool = True
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_timeout(self.timeout)


@dataclass(frozen=True)
class _Order:
    """A request: what is asked, and how it is generated."""

    job: Job
    limits: _Limits = field(default_factory=_Limits)


def _ignore(events: Sequence[Event]) -> None:
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
    ):
        self.engine = engine
        remembered = 0 if deterministic else MOST_TOKENS  # what was before would change prompts
        self.compiler = Compiler(
            engine.vocabulary, template, tool_template, tool_format, remembered
        )
        self.sampling = sampling or Sampling()
        self.notices = (*notices, *self.compiler.notices)
        self._draft = draft
        self._worker = Worker("compile")
        self._clock = clock
        how: Any = {"deterministic": deterministic, "step": step, "clock": clock, "cache": cache}
        self._runner = Runner(engine, "decode", **how)

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
        return run(partial(self._start, _read(messages, tools, options)))

    async def acall(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """As `call`. Cancelling the task ends the turn within one step."""
        return await arun(partial(self._start, _read(messages, tools, options)))

    def stream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Stream[Reply]:
        """As `call`, with the events of `grammars.turn` as they come; `result` is the reply."""
        return Stream(partial(self._start, _read(messages, tools, options)))

    def astream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> AsyncStream[Reply]:
        """As `stream`, for `async for`."""
        return AsyncStream(partial(self._start, _read(messages, tools, options)))

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
        order = _read(messages, None, options, target)
        return _finish(target, run(partial(self._start, order)))

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
        order = _read(messages, None, options, target)
        return _finish(target, await arun(partial(self._start, order)))

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

    def compile(self, job: Job) -> CompiledTurn:
        """The prompt and the grammar of a job; see `Compiler.compile`."""
        return run(lambda _: self._worker.submit(lambda: self.compiler.compile(job)))

    def complete(
        self,
        turns: Sequence[CompiledTurn],
        *,
        max_tokens: int = 1024,
        sampling: Sampling | None = None,
        force: bool = True,
        timeout: float | None = None,
    ) -> list[Reply]:
        """Generates several turns together; see `generate` and `make_reply` for the errors.

        Args:
            force: take tokens that the grammar forces without asking the model.
            timeout: see `Options`; for all of them.
        """
        limits = _Limits(max_tokens, sampling, force, timeout)
        deadline = set_deadline(timeout, self._clock)
        streams = [Stream(partial(self._launch, turn, limits, deadline)) for turn in turns]
        try:
            return [stream.result for stream in streams]
        finally:
            for stream in streams:
                stream.cancel()

    def stream_turn(
        self,
        turn: CompiledTurn,
        *,
        max_tokens: int = 1024,
        sampling: Sampling | None = None,
        timeout: float | None = None,
    ) -> Stream[Reply]:
        """As `complete` for one turn, with its events as they come."""
        limits = _Limits(max_tokens, sampling, timeout=timeout)
        deadline = set_deadline(timeout, self._clock)
        return Stream(partial(self._launch, turn, limits, deadline))

    def _start(self, order: _Order, is_wanted: Wanted, sink: Sink = _ignore) -> Future[Reply]:
        deadline = set_deadline(order.limits.timeout, self._clock)

        def compile() -> Future[Reply]:
            if deadline and deadline.is_over(self._clock()):
                raise deadline.fail_waiting()
            turn = self.compiler.compile(order.job)
            return self._launch(turn, order.limits, deadline, is_wanted, sink)

        return self._worker.start(compile)

    def _launch(
        self,
        turn: CompiledTurn,
        limits: _Limits,
        deadline: Deadline | None,
        is_wanted: Wanted,
        sink: Sink,
    ) -> Future[Reply]:
        request = Request(
            turn.tokens,
            turn.matcher.fork() if turn.matcher else None,
            turn.parser,
            limits.sampling or self.sampling,
            limits.max_tokens,
            limits.force,
            turn.budget,
            turn.reserve,
            sink,
            is_wanted,
            turn.watch,
            deadline=deadline,
            boundaries=(turn.head,) if turn.head else (),
            draft=self._draft,
        )
        generation = self._runner.submit(request)
        generation.add_done_callback(self._note_failure)
        return then(generation, partial(self._finish, turn))

    def _finish(self, turn: CompiledTurn, made: Generation) -> Reply:
        reply = make_reply(made, turn)
        if made.finish is Finish.STOP:
            self.compiler.prompts.keep(turn, made.tokens, reply.message())
        return reply

    def _note_failure(self, generation: Future[Generation]) -> None:
        """A matcher that has failed has spoilt what its forks share: it is compiled anew."""
        if isinstance(generation.exception(), GrammarError):
            with suppress(ModelError):  # closed meanwhile
                self._worker.submit(self.compiler.forget)

    def metrics(self) -> Metrics:
        """What is held of earlier requests: sequences, snapshots in memory and on disk."""
        return self._runner.metrics

    def close(self) -> None:
        """Frees the model when the requests in the queue are done."""
        self._worker.close()
        self._runner.close()
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


def _read(
    messages: Messages,
    tools: Sequence[Any] | None,
    options: Mapping[str, Any],
    target: Target | None = None,
) -> _Order:
    """A request as a job and its limits; says which option is not known."""
    if unknown := [name for name in options if name not in Options.__annotations__]:
        hint = f"known: {', '.join(Options.__annotations__)}"
        raise TypeError(f"unknown option {unknown[0]!r}; {hint}")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    given = dict(options)
    if target and given.get("response_format") is not None:
        hint = "Leave response_format out"
        raise RequestError("the answer is asked for twice", where="/response_format", hint=hint)
    limits = {k: given.pop(k) for k in LIMITS if k in given}
    answer = read_response_format(given.pop("response_format", None))
    # Copies: the request may wait in the queue while its owner goes on.
    answer = target.answer if target else answer
    job = Job(copy_json(messages), copy_json(tools or ()), answer=answer, **given)
    return _Order(job, _Limits(**limits))


def _finish(target: Target, reply: Reply) -> Any:
    if reply.finish_reason != "stop":
        hint = "Raise max_tokens, or the context length (-c)"
        raise ReplyError(f"the tokens ran out: {reply.content!r}", hint=hint)
    return target.read(reply.content)
