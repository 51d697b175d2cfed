"""The turn that becomes the reply: the one that is generated, or another one in its place if the
model was not sure of a call.

The events of such turns wait until the reply is known, because sent events cannot be taken back.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.schedule.runner import TurnEngine
from constrained.decode.schedule.streams import Sink, then, then_start
from constrained.errors import RequestError
from constrained.model.call_options import TRACED, CallOptions
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.confidence_policy import take_back
from constrained.model.reply import Reply


class Launch(Protocol):
    def __call__(
        self, turn: CompiledTurn, sink: Sink, *, options: CallOptions
    ) -> Future[Reply]: ...


def check_choice(options: CallOptions, engine: object) -> None:
    """Refuses `min_confidence` for a remote engine."""
    if options.min_confidence is not None and isinstance(engine, TurnEngine):
        message = "a remote engine does not report how likely its tokens are"
        raise RequestError(message, where="/min_confidence", hint="Leave it out")


def generate_chosen(
    launch: Launch, turn: CompiledTurn, sink: Sink, options: CallOptions
) -> Future[Reply]:
    """Generates a turn, and another one in its place if the options ask for it."""
    if options.min_confidence is None:
        return launch(turn, sink, options=options)
    measured = replace(options, decode=replace(options.decode, trace=TRACED))
    if options.instead is None:
        reply = launch(turn, sink, options=measured)
    else:
        reply = _generate_sure(launch, turn, sink, measured)
    return reply if options.decode.trace else then(reply, _drop_trace)


def _generate_sure(
    launch: Launch, turn: CompiledTurn, sink: Sink, options: CallOptions
) -> Future[Reply]:
    instead = options.instead
    assert instead is not None
    held: list[StreamEvent] = []

    def hold(events: Sequence[StreamEvent]) -> None:
        """Holds events back, but for progress."""
        progress = [event for event in events if isinstance(event, ProgressMade)]
        held.extend(event for event in events if not isinstance(event, ProgressMade))
        if progress:
            sink(progress)

    def choose(first: Reply) -> Future[Reply]:
        unsure = options.confidence_policy.find_unsure(first)
        if unsure:
            second = launch(instead, sink, options=options)
            return then(second, lambda reply: take_back(unsure, first, reply))
        sink(held)
        chosen = Future[Reply]()
        chosen.set_result(first)
        return chosen

    return then_start(launch(turn, hold, options=options), choose)


def _drop_trace(reply: Reply) -> Reply:
    return replace(reply, trace=None)
