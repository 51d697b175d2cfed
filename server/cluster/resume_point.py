"""Where another replica can go on with a turn: its tokens, as far as their events were sent."""

from collections.abc import Sequence

from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
from constrained.mask.logprobs import TokenDrawn
from server.cluster.turn_order import ReplicaLostError


class ResumePoint:
    """Follows a turn. Its events come in batches, each after a `ProgressMade` with the tokens.
    `scored` are the tokens that came with their log probabilities.

    Where the tokens run out, the shortest ending is written in one step, and not by the model: its
    events wait until the turn is over, so that another replica may write it again.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.scored: list[TokenDrawn] = []
        self._held: list[StreamEvent] | None = None

    def take(self, batch: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Takes a batch; returns the events that may be sent.

        Raises:
            ReplicaLostError: earlier tokens are missing.
        """
        sent: list[StreamEvent] = []
        for event in batch:
            if self._held is None and isinstance(event, Exhausted):
                self._held = []
            if self._held is not None:
                self._held.append(event)
                continue
            if isinstance(event, ProgressMade):
                if event.position > len(self.tokens):
                    missing = f"tokens {len(self.tokens)} to {event.position - 1}"
                    raise ReplicaLostError(f"{missing} did not arrive")
                self.tokens[event.position :] = event.tokens
            if isinstance(event, TokenDrawn):
                self.scored.append(event)
            sent.append(event)
        return sent

    def finish(self) -> list[StreamEvent]:
        held, self._held = self._held or [], None
        return held

    def resume(self) -> tuple[int, ...]:
        """Returns the tokens after which another replica continues; events that have not been sent
        are written again."""
        self._held = None
        return tuple(self.tokens)
