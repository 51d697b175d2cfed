"""A loaded model, with the methods to call it."""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from constrained.decode.filters.events import StreamEvent
from constrained.decode.schedule.streams import (
    AsyncStream,
    Sink,
    Stream,
    Wanted,
    arun,
    run,
)
from constrained.limits.deadline import set_deadline
from constrained.model.call_options import (
    GeneratedTextOptions,
    Messages,
    ModelCall,
    Options,
    read_call,
    read_value,
)
from constrained.model.reply import Reply, TurnCallIds
from constrained.model.turn_model import TurnModel
from constrained.prompt.answers import Target, read_target

T = TypeVar("T")


def _ignore(events: Sequence[StreamEvent]) -> None:
    """For a caller that only needs the reply."""


class LoadedModel(TurnModel):
    """A loaded model: `call` generates one turn, `generate` returns a value, `stream` gives events;
    `acall`, `agenerate` and `astream` are the same for asyncio. All are safe to use from several
    threads. A model is a context manager: leaving it closes the model.

    Its arguments are those of the public class, `constrained.Model`.
    """

    def __repr__(self) -> str:
        engine = self.engine
        return (
            f"<Model {self._name}: tool format {self.compiler.format.name}, "
            f"context {engine.context_length}, sequences {engine.max_sequences}>"
        )

    def call(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """Generates one assistant turn. Tools are not executed: see `run`.

        Args:
            messages: the conversation in OpenAI's form, or the text of a user message.
            tools: functions, pydantic models, dataclasses, or JSON in the form of OpenAI, Anthropic
                or MCP.
            options: see `constrained.model.call_options.Options`.

        Returns:
            The reply: content, reasoning and calls. The names of the calls exist, and their
            arguments fit the schemas.

        Raises:
            Error: one of its subclasses; it says what is wrong, where, and what to do.
        """
        return run(partial(self._start, self._read_call(messages, tools, options)))

    async def acall(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Reply:
        """Like `call`, for asyncio. Cancelling the task cancels the turn."""
        return await arun(partial(self._start, self._read_call(messages, tools, options)))

    def stream(
        self, messages: Messages, tools: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Stream[Reply]:
        """Like `call`, but returns a stream at once: iterate over it for the events; `result` is
        the reply. A request that is not valid raises its error at once, other errors come while you
        iterate. `options`: see `constrained.model.call_options.Options`."""
        return Stream(partial(self._start, self._read_call(messages, tools, options)))

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
            options: see `constrained.model.call_options.Options`.

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
        deadline = set_deadline(call.options.timeout, self.queue.clock)

        def compile() -> Future[Reply]:
            turn = self.compiler.compile(call.job)
            named = TurnCallIds(turn).name_calls(sink)
            return self._generate(turn, is_wanted, named, options=call.options, deadline=deadline)

        is_known = self.compiler.knows(call.job)
        order = self.queue.order(call.options.owner, is_wanted, deadline, is_known=is_known)
        return self.queue.workers.start(compile, order)
