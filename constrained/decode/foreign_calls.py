"""Calls that the model begins in another envelope than its own (`grammars.wire.envelopes`).

The mask of a turn with optional calls allows any text, so it does not prevent that the model writes
a call as it has seen others do, in a fence or as a bare object. The parser holds such text back and
reports it when the name of a tool and the opening of its arguments are there. Then the turn goes
one of two ways, and either way the mask holds the rest of the call to its schema:

    lead back   the turn forgets the envelope, the KV cache too, and continues with the opening of
                the model's own format and that name
    keep        the envelope stays, and another grammar continues the turn in it

If neither is possible, as when too few tokens are left for the call, the envelope is text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from constrained.decode.request import EnvelopeRules
from constrained.decode.turn_state import TurnState
from constrained.errors import GrammarError
from grammars.errors import Error
from grammars.parse.render import render_opening
from grammars.wire.envelopes import EnvelopeKind, ForeignCall
from grammars.wire.format import Format


@dataclass(frozen=True)
class Delivery:
    """How a turn goes on with a call that began in another envelope.

    Args:
        kept: how many of its first tokens the turn has kept.
        said: the tokens that come next, of text that was sent before.
        opening: those after them, of the opening of the call.
    """

    kept: int
    said: Sequence[int] = ()
    opening: Sequence[int] = ()


class ForeignCalls:
    """Delivers the calls of one turn that begin in another envelope.

    Args:
        state: of the turn.
        rules: how.

    Attributes:
        delivered: the kinds of the envelopes, in order.
    """

    def __init__(self, state: TurnState, rules: EnvelopeRules):
        self._state = state
        self._rules = rules
        self.delivered: list[EnvelopeKind] = []

    def deliver(self, found: ForeignCall) -> Delivery | None:
        """Makes the turn continue with a call; None: it could not be delivered, and is text."""
        ways = [self._lead_back, self._keep]
        if self._rules.keeps:
            ways.reverse()
        for way in ways:
            delivery = way(found)
            if delivery is not None:
                self.delivered.append(found.kind)
                return delivery
        return None

    def _lead_back(self, found: ForeignCall) -> Delivery | None:
        """Goes back to before the envelope; returns the opening of the call. None: the turn cannot
        go back, or the grammar has no call there."""
        state = self._state
        place = state.transcript.find_place_of(found.start)
        if place is None:
            return None
        start = state.replay(state.tokens[: place.count])
        said = self._rules.encode(place.text) if place.text else ()
        for text in self._rules.list_openings(found.tool, state.transcript.has_content):
            opening = self._rules.encode(text)
            tokens = [*said, *opening]
            if start.count_accepted(tokens) == len(tokens):
                is_back = state.rewind(place.count, then=tokens)
                return Delivery(place.count, said, opening) if is_back else None
        return None

    def _keep(self, found: ForeignCall) -> Delivery | None:
        """Continues in the envelope. None: it cannot be continued, or too few tokens are left."""
        place = self._state.transcript.find_place_of(found.end)
        if found.format is None or place is None:
            return None
        try:
            return self._continue(found, found.format, place.count, place.text)
        except GrammarError:
            raise
        except Error:  # the format of the envelope cannot write this name or schema
            return None

    def _continue(
        self, found: ForeignCall, format: Format, count: int, text: str
    ) -> Delivery | None:
        """Continues in a format. The last token usually has the brace of the arguments, and may
        have the end of what stands before it.

        Args:
            found: the call.
            format: of the rest of the turn.
            count: how many tokens end before the arguments.
            text: the text of the next token before the arguments.
        """
        state = self._state
        lead = render_opening(format, found.tool)
        start = lead.rstrip()
        pad = lead.removeprefix(start)
        if pad and text.endswith(pad):
            text = text.removesuffix(pad)  # the grammar begins with it, as the token does
        else:
            start = lead
        rest = self._rules.continue_in(format, start)
        assert rest.matcher is not None
        if not text and rest.matcher.fork().try_commit(state.tokens[count:]):
            keep, then = len(state.tokens), ()
        else:
            keep, then = count, self._rules.encode(text)
        goes_on = state.go_on(rest, found, start=count + len(then), keep=keep, then=then)
        return Delivery(keep) if goes_on else None
