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

from collections.abc import Mapping

from constrained.decode.request import EnvelopeRules
from constrained.decode.transcript import INSERTED, SAID, TextPlace
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_changes import go_on, rewind
from constrained.decode.turn_part import TurnPart
from constrained.errors import GrammarError
from grammars.errors import Error
from grammars.parse.render import render_opening
from grammars.turn import ContentDelta
from grammars.wire.envelopes import EnvelopeKind, ForeignCall
from grammars.wire.format import Format


class ForeignCalls(TurnPart):
    """Delivers the calls of one turn that begin in another envelope."""

    name = "foreign calls"

    def __init__(self, turn: RunningTurn, rules: EnvelopeRules):
        self._turn = turn
        self._rules = rules
        self._delivered: list[EnvelopeKind] = []

    def react(self) -> bool:
        turn = self._turn
        found = turn.transcript.foreign_call
        if found is None:
            return False
        ways = [self._lead_back, self._keep]
        if self._rules.keeps:
            ways.reverse()
        for way in ways:
            if way(found):
                self._delivered.append(found.kind)
                return True
        turn.send(turn.transcript.decline_foreign_call())
        return False

    def report(self) -> Mapping[str, tuple[object, ...]]:
        return {"envelopes": tuple(self._delivered)}

    def _lead_back(self, found: ForeignCall) -> bool:
        """Goes back to before the envelope, and writes the opening of the call. False: the turn
        cannot go back, or the grammar has no call there."""
        turn = self._turn
        place = turn.transcript.find_place_of(found.start)
        if place is None:
            return False
        start = turn.grammars.replay(turn.tokens[: place.count])
        said = self._rules.encode(place.text) if place.text else []
        for text in self._rules.list_openings(found.tool, self._has_content()):
            opening = self._rules.encode(text)
            tokens = [*said, *opening]
            if start.count_accepted(tokens) == len(tokens):
                if not rewind(turn, place.count, then=tokens):
                    return False
                if turn.take(said, SAID):
                    turn.take(opening, INSERTED)
                return True
        return False

    def _has_content(self) -> bool:
        turn = self._turn
        texts = [one.text for one in turn.transcript.events if isinstance(one, ContentDelta)]
        return bool("".join([turn.request.turn.prefill.message.content, *texts]).strip())

    def _keep(self, found: ForeignCall) -> bool:
        """Continues in the envelope. False: it cannot be continued, or too few tokens are left."""
        place = self._turn.transcript.find_place_of(found.end)
        if found.format is None or place is None:
            return False
        try:
            return self._continue(found, found.format, place)
        except GrammarError:
            raise
        except Error:  # the format of the envelope cannot write this name or schema
            return False

    def _continue(self, found: ForeignCall, format: Format, place: TextPlace) -> bool:
        """Continues in a format. The last token usually has the brace of the arguments, and may
        have the end of what stands before it."""
        turn, text = self._turn, place.text
        lead = render_opening(format, found.tool)
        start = lead.rstrip()
        pad = lead.removeprefix(start)
        if pad and text.endswith(pad):
            text = text.removesuffix(pad)  # the grammar begins with it, as the token does
        else:
            start = lead
        rest = self._rules.continue_in(format, start)
        assert rest.matcher is not None
        keep, then = place.count, self._rules.encode(text)
        if not text and rest.matcher.fork().try_commit(turn.tokens[place.count :]):
            keep = turn.count
        return go_on(turn, rest, found, start=place.count + len(then), keep=keep, then=then)
