"""The drafts of a step: for all turns, as far as they save time."""

from collections.abc import Mapping, Sequence

from constrained.decode.drafts.decode_costs import DecodeCosts
from constrained.decode.schedule.active_turn import ActiveTurn
from constrained.engine.protocol import DecodeSize


class Drafting:
    """Drafts for the turns of a step.

    A drafted token saves a turn a decode, but the more turns a decode has, the less it saves: the
    time of a decode is shared by its turns, that of a drafted token is not. So the costs are
    measured.

    Args:
        evens_out: chunks of different sizes are avoided, see `DecodeCosts`.
    """

    def __init__(self, *, evens_out: bool):
        self._costs = DecodeCosts(evens_out=evens_out)

    def note_decode(self, size: DecodeSize, seconds: float) -> None:
        """Notes how long the decode of a step without prompts took."""
        self._costs.note(size, seconds)

    def draft(
        self, turns: Mapping[int, ActiveTurn], spare: int, *, together: int
    ) -> dict[int, Sequence[int]]:
        """Returns a draft for each turn that gets one, by its sequence.

        Args:
            turns: those that may get one, by their sequences.
            spare: the maximum number of drafted tokens of a decode.
            together: the number of all turns of the decode.
        """
        if not turns or spare < 1:
            return {}
        costs = self._costs.estimate(together)
        drafts = dict[int, Sequence[int]]()
        for done, (number, active) in enumerate(turns.items()):
            if active.share.is_costly:  # each drafted token costs a mask
                continue
            with active.share.measure():
                draft = active.turn.propose_draft(spare // (len(turns) - done), costs)
            if draft:
                drafts[number] = draft
                spare -= len(draft)
        return drafts
