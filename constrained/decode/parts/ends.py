"""What ends a turn besides its grammar: a stop text, the last call, content that repeats itself."""

from collections.abc import Mapping

from constrained.decode.endless.values import FEWEST_TOKENS, EndedValue, LoopFinder
from constrained.decode.request import Finish
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_part import TurnPart, TurnView
from constrained.engine.vocabulary.vocabulary import ends_inside

FEWEST_PERIODS = 16
SHARE = 4
"""Content may repeat itself for this part of the tokens that a value may take: nothing comes after
it that would need the model to go on. Of the texts that were measured, a list of ten lists of ten
zeros had the longest loop below 16 periods, 302 tokens; a form of 12 equal lines the longest of the
others, 168 tokens. Manuals, sources and change logs had none of 24 tokens."""


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
        limiter = self._turn.transcript.limiter
        if limiter is None or limiter.last is None or self._turn.finish is Finish.CANCELLED:
            return False
        self._turn.end_after_call(limiter.last)
        return True


class RepeatedContent(TurnPart):
    """Ends a turn whose content repeats itself without end, such as 80 lines of ```.

    The turn ends there, as if its tokens had run out: nothing is written that the model did not
    write, so a turn without a grammar has the same tokens as without this limit, only fewer. What
    repeats itself on purpose stays: a table of equal rows, a line of zeros, a poem. So a loop is
    longer than these, and has many periods.

    Attributes:
        ended: the note for the reply; None: the content goes on.
    """

    name = "repeated content"

    def __init__(self, turn: RunningTurn, max_repetition: int):
        self._turn = turn
        self._max_tokens = max(FEWEST_TOKENS, max_repetition // SHARE)
        self._finder = LoopFinder()
        self.ended: EndedValue | None = None

    def _forget(self) -> None:
        """Begins anew, after the turn went back or has left its content."""
        self._finder = LoopFinder()
        self.ended = None

    def after_take(self, token: int, turn: TurnView, *, is_forced: bool, is_computed: bool) -> None:
        so_far = turn.transcript
        if so_far.is_reasoning or so_far.is_in_call or so_far.is_healing:
            self._forget()
            return
        self._finder.add(token)
        loop = self._finder.find(self._max_tokens)
        if loop is None or loop.length < FEWEST_PERIODS * loop.period:
            return
        if not ends_inside(bytes(so_far.data[-4:])):  # else the character is completed first
            self.ended = EndedValue(so_far.find_place(), len(so_far.tokens))

    def react(self) -> bool:
        turn = self._turn
        if self.ended is None or turn.transcript.is_over:
            return False
        if turn.finish is None:
            turn.finish = Finish.LENGTH
        return True

    def rewind(self, count: int) -> None:
        self._forget()

    def report(self) -> Mapping[str, tuple[object, ...]]:
        return {} if self.ended is None else {"ended_values": (self.ended,)}
