"""The drafts of a step: for all turns at once, as far as they save time."""

import logging
from collections.abc import Mapping, Sequence

from constrained.decode.drafts.decode_costs import ALONE, DecodeCosts
from constrained.decode.drafts.draft_model import DraftAsk, DraftModel
from constrained.decode.schedule.active_turn import ActiveTurn
from constrained.engine.protocol import DecodeSize
from constrained.errors import Error

LOG = logging.getLogger("constrained.decode.drafts")


class Drafting:
    """Drafts for the turns of a step. Copied drafts come first; the draft model makes those of all
    other turns together.

    A drafted token saves a turn a decode, but the more turns a decode has, the less it saves: the
    time of a decode is shared by its turns, that of a drafted token is not. So the costs are
    measured.

    Args:
        draft_model: drafts for all turns; None: drafts are only copied.
        evens_out: chunks of different sizes are avoided, see `DecodeCosts`.
    """

    def __init__(self, draft_model: DraftModel | None, *, evens_out: bool):
        self._draft_model = draft_model
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
        # The fit takes time, and a turn that runs alone does not need it to copy.
        is_alone = together == 1 and self._draft_model is None
        costs = ALONE if is_alone else self._costs.estimate(together)
        drafts = dict[int, Sequence[int]]()
        asks = dict[int, DraftAsk]()
        for done, (number, active) in enumerate(turns.items()):
            if active.share.is_costly:  # each drafted token costs a mask
                continue
            with active.share.measure():
                draft = active.turn.propose_draft(spare // (len(turns) - done), costs)
            if draft.tokens:
                drafts[number] = draft.tokens
                spare -= len(draft.tokens)
            elif draft.ask is not None:
                asks[number] = draft.ask
                spare -= draft.ask.max_tokens
        return drafts | self._ask_model(asks, turns)

    def _ask_model(
        self, asks: Mapping[int, DraftAsk], turns: Mapping[int, ActiveTurn]
    ) -> dict[int, Sequence[int]]:
        if self._draft_model is None or not asks:
            return {}
        try:
            self._draft_model.draft([*asks.values()])
        except Error as error:  # the turns can continue without drafts
            LOG.warning("the draft model failed, the turns continue without it: %s", error)
            for number in asks:
                turns[number].turn.leave_draft_model()
            return {}
        drafts = dict[int, Sequence[int]]()
        for number, ask in asks.items():
            turns[number].share.add(ask.seconds)
            drafts[number] = turns[number].turn.take_answer(ask)
        return drafts
