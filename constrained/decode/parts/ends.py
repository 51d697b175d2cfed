"""What ends a turn besides its grammar: a stop text, the last call, content that repeats itself."""

from collections.abc import Mapping

from constrained.decode.endless.content import EndlessContent
from constrained.decode.request import Finish
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_part import TurnPart, TurnView


class StopTexts(TurnPart):
    """Ends a turn at a stop text (`filters.stop_texts`)."""

    name = "stop texts"

    def __init__(self, turn: RunningTurn):
        self._turn = turn

    def react(self) -> bool:
        turn = self._turn
        if turn.transcript.stopped is None:
            return False
        if turn.finish is not Finish.CANCELLED:
            turn.finish = Finish.STOP
            turn.ended_at = None
        return True


class LastCall(TurnPart):
    """Ends a turn after the last call that it may have (`filters.call_limits`)."""

    name = "call limits"

    def __init__(self, turn: RunningTurn):
        self._turn = turn

    def react(self) -> bool:
        limiter = self._turn.transcript.filters.limiter
        if limiter is None or limiter.last is None or self._turn.finish is Finish.CANCELLED:
            return False
        self._turn.end_after_call(limiter.last)
        return True


class RepeatedContent(TurnPart):
    """Ends a turn whose content repeats itself (`endless.content`)."""

    name = "repeated content"

    def __init__(self, turn: RunningTurn, max_repetition: int):
        self._turn = turn
        self._content = EndlessContent(max_repetition)

    def after_take(self, token: int, turn: TurnView, *, is_forced: bool, is_computed: bool) -> None:
        self._content.note(token, turn.transcript)

    def react(self) -> bool:
        turn = self._turn
        if self._content.ended is None or turn.transcript.is_over:
            return False
        if turn.finish is None:
            turn.finish = Finish.LENGTH
        return True

    def rewind(self, count: int) -> None:
        self._content.forget()

    def report(self) -> Mapping[str, tuple[object, ...]]:
        return {} if self._content.ended is None else {"ended_values": (self._content.ended,)}
