"""The turn that becomes the reply: the one that is generated, or another one in its place if the
model was not sure of a call.

The events of such turns wait until the reply is known, because sent events cannot be taken back.
"""

from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol

from constrained.decode.schedule.runner import TurnEngine
from constrained.decode.schedule.streams import Sink, resolve, then
from constrained.errors import RequestError
from constrained.model.call_options import TRACED, CallOptions
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.confidence_policy import take_back
from constrained.model.held_events import HeldEvents
from constrained.model.reply import Reply


class Launch(Protocol):
    """A function that generates a turn, and passes its events to the sink."""

    def __call__(
        self, turn: CompiledTurn, sink: Sink, *, options: CallOptions
    ) -> Future[Reply]: ...


def check_choice(options: CallOptions, engine: object) -> None:
    """Checks the options by which a turn is chosen.

    Raises:
        RequestError: `min_confidence` is given, and the engine is remote.
    """
    if options.min_confidence is not None and isinstance(engine, TurnEngine):
        message = "a remote engine does not report how likely its tokens are"
        raise RequestError(message, where="/min_confidence", hint="Leave it out")


def generate_chosen(
    launch: Launch, turn: CompiledTurn, sink: Sink, options: CallOptions
) -> Future[Reply]:
    """Generates a turn, and another one in its place if the options ask for it.

    Args:
        launch: generates one turn.
        turn: that is generated first.
        sink: takes the events of the reply.
        options: of the call.
    """
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
    """Generates a turn; if the model was not sure of one of its calls, generates another turn
    instead."""
    instead = options.instead
    assert instead is not None
    held = HeldEvents(sink)
    outer = Future[Reply]()
    outer.set_running_or_notify_cancel()

    def check(first: Reply) -> None:
        unsure = options.confidence_policy.find_unsure(first)
        if not unsure:
            held.release()
            outer.set_result(first)
            return
        second = launch(instead, sink, options=options)
        taken = then(second, lambda reply: take_back(unsure, first, reply))
        taken.add_done_callback(
            lambda done: resolve(outer, lambda: outer.set_result(done.result()))
        )

    first = launch(turn, held.take, options=options)
    first.add_done_callback(lambda done: resolve(outer, lambda: check(done.result())))
    return outer


def _drop_trace(reply: Reply) -> Reply:
    return replace(reply, trace=None)
