"""Requests under way: what is told of their turns, as it comes."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.events import Exhausted
from constrained.logits import TokenDrawn
from constrained.reply import Reply
from constrained.schedule.worker import AsyncStream
from grammars.turn import Event
from server.turns.reasoning import Thinking
from server.turns.turn_request import Asked, Service, compile_turn, count_down, launch

LOG = logging.getLogger("constrained.server")
SHORT = 16  # characters of a hash
Told: TypeAlias = Event | TokenDrawn | Exhausted | Reply
"""What is told of a turn; the reply comes last."""


@dataclass(frozen=True)
class Begun:
    """A request under way.

    Args:
        asked: what it is.
        turn: prompt and grammar.
        thinking: what became of what it says of reasoning.
        streams: a turn for each choice.
    """

    asked: Asked
    turn: CompiledTurn
    thinking: Thinking
    streams: Sequence[AsyncStream[Reply]]
    service: Service
    _over: set[int] = field(default_factory=set[int], init=False, repr=False)
    _first: list[asyncio.Task[tuple[int, Told]]] = field(
        default_factory=list["asyncio.Task[tuple[int, Told]]"], init=False, repr=False
    )

    async def wait(self, seconds: float) -> None:
        """Waits until something is told, at most so long: what is refused at once is then refused
        with its status, and not in a stream that says it is fine.

        Raises:
            Error: as `follow`.
        """
        self._first.append(asyncio.ensure_future(anext(self._told)))
        done, _ = await asyncio.wait(self._first, timeout=seconds)
        for task in done:
            task.result()

    async def follow(self) -> AsyncIterator[tuple[int, Told]]:
        """What comes of all choices, in the order in which it comes: the number of the choice, and
        an event; last of each, its reply. Leaving the loop ends the turns.

        Raises:
            Error: as in `Model.call`; the other turns end as well.
        """
        try:
            for task in self._first:
                yield self._note(*await task)
            async for number, told in self._told:
                yield self._note(number, told)
        finally:
            self.cancel()
            await asyncio.gather(*self._first, return_exceptions=True)
            await self._told.aclose()

    @cached_property
    def _told(self) -> AsyncGenerator[tuple[int, Told], None]:
        followed = [_follow(stream) for stream in self.streams]
        return _merge(followed) if followed[1:] else _number(followed[0])

    def _note(self, number: int, told: Told) -> tuple[int, Told]:
        if isinstance(told, Reply):
            self._over.add(number)
            self.service.counters.note_usage(told.usage)
            if self.service.settings.log_prompts:
                LOG.info("reply: %r", told.text)
        return number, told

    def cancel(self) -> None:
        """Ends the turns within one step; does nothing if they are over."""
        for task in self._first:
            if not task.cancel() and not task.cancelled():
                task.exception()  # nobody else asks for it
        for stream in self.streams:
            stream.cancel()
        left = set(range(len(self.streams))) - self._over
        self.service.counters.note_unfinished(len(left))
        self._over.update(left)

    @cached_property
    def grammar_hash(self) -> str | None:
        """Names the grammar, which may have megabytes; None: there is none."""
        return None if self.turn.grammar is None else hash_text(self.turn.grammar)

    @property
    def headers(self) -> dict[str, str]:
        """What the reply says of itself: format and start, and what was not done as asked."""
        turn = self.turn
        said = {"X-Tool-Format": turn.format.name, "X-Turn-Start": turn.state.start.value}
        if (
            turn.prompt.breakpoints.shared
        ):  # what all prompts with these tools and system messages begin with
            said["X-Head-Hash"] = hash_text(repr(turn.tokens[: turn.prompt.breakpoints.shared]))
        if self.grammar_hash is not None:
            said["X-Grammar-Hash"] = self.grammar_hash
        if turn.refused:
            said["X-Grammar-Constraints"] = "downgraded"
        if self.asked.ignored:
            said["X-Ignored-Fields"] = _as_header(", ".join(self.asked.ignored))
        if self.asked.normalised:
            said["X-Normalised"] = str(self.asked.normalised)
        if self.thinking.ignored:
            said["X-Reasoning-Effort"] = "ignored"
        return said

    def notes(self) -> dict[str, Any]:
        """What a reply has beside what its dialect knows: `constrained`, where there is anything to
        say."""
        said: dict[str, Any] = {}
        if self.turn.refused:
            said["refused_tools"] = [refusal.to_json() for refusal in self.turn.refused]
        if self.asked.ignored:
            said["ignored_fields"] = [*self.asked.ignored]
        if self.thinking.ignored:
            said["reasoning"] = self.thinking.to_json()
        if self.service.settings.show_grammar:
            said["format"] = self.turn.format.name
            said["start"] = self.turn.state.start.value
            said["reasoning"] = self.thinking.to_json()
            said["weakened"] = _describe_weakened(self.turn)
            said["grammar"] = self.turn.grammar
        return {"constrained": said} if said else {}


def hash_text(text: str) -> str:
    """A short hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:SHORT]


def _as_header(text: str) -> str:
    """The text as far as a header can have it: printed ASCII, no space at its ends."""
    return json.dumps(text)[1:-1].replace("\x7f", "\\u007f")[:500].strip()


def _describe_weakened(turn: CompiledTurn) -> dict[str, Any]:
    """For each tool, what its schema says that the mask does not hold as it stands there."""
    weakened: dict[str, Any] = {}
    for tool in turn.tools:
        report = tool.schema.report
        parts = {"checked": report.checked, "repaired": report.repaired, "ignored": report.ignored}
        said = {name: [vars(f) for f in findings] for name, findings in parts.items() if findings}
        if said or not tool.strict:
            weakened[tool.name] = said | ({} if tool.strict else {"strict": False})
    return weakened


async def begin(service: Service, asked: Asked) -> Begun:
    """Compiles a request and starts its turns.

    Raises:
        Error: as in `Model.call`.
    """
    left = count_down(service.settings.timeout)
    turn, thinking = await compile_turn(service, asked, left())
    begun = Begun(asked, turn, thinking, launch(service, asked, [turn], left()), service)
    _log(begun)
    return begun


def _log(begun: Begun) -> None:
    turn, asked = begun.turn, begun.asked
    LOG.info(
        "prompt of %d tokens, format %s, start %s, grammar %s, %d tools (%d refused)",
        len(turn.tokens),
        turn.format.name,
        turn.state.start.value,
        begun.grammar_hash,
        len(turn.tools),
        len(turn.refused),
    )
    for refusal in turn.refused:
        LOG.warning("%s", refusal)
    if asked.ignored:
        LOG.warning("ignored fields: %s", ", ".join(map(repr, asked.ignored)))
    if begun.service.settings.log_prompts:
        LOG.info("prompt: %r", turn.prompt.text)


async def _follow(stream: AsyncStream[Reply]) -> AsyncIterator[Told]:
    async for event in stream:
        yield event
    yield await stream.result()


async def _number(stream: AsyncIterator[Told]) -> AsyncGenerator[tuple[int, Told], None]:
    async for told in stream:
        yield 0, told


async def _merge(
    streams: Sequence[AsyncIterator[Told]],
) -> AsyncGenerator[tuple[int, Told], None]:
    """What comes of several streams, as it comes."""
    queue: asyncio.Queue[tuple[int, Told] | Exception | None] = asyncio.Queue()

    async def read(number: int, stream: AsyncIterator[Told]) -> None:
        try:
            async for told in stream:
                queue.put_nowait((number, told))
            queue.put_nowait(None)
        except Exception as error:
            queue.put_nowait(error)

    tasks = [asyncio.create_task(read(n, stream)) for n, stream in enumerate(streams)]
    try:
        left = len(tasks)
        while left:
            match await queue.get():
                case None:
                    left -= 1
                case Exception() as error:
                    raise error
                case pair:
                    yield pair
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
