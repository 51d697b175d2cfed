"""The grammars of a turn: one from its start, and perhaps another one in the envelope of a call."""

from collections.abc import Sequence
from dataclasses import dataclass

from constrained.decode.request import DecodeInput
from constrained.mask.matcher import Matcher


@dataclass(frozen=True)
class _Span:
    """A part of a turn with a grammar of its own.

    Args:
        since: the number of tokens from which on it counts.
    """

    turn: DecodeInput
    matcher: Matcher
    start: int
    since: int


class GrammarSpans:
    """The grammars of one turn, from which a matcher is made for any place in it.

    It is not known in advance where a turn has to go back to. Instead of a fork for each token
    there is one of the start of each grammar, which commits the remaining tokens again.
    """

    def __init__(self, turn: DecodeInput):
        self._first = turn
        self._spans: list[_Span] = []
        if turn.matcher is not None:
            self._spans.append(_Span(turn, turn.matcher.fork(), start=0, since=0))

    @property
    def turn(self) -> DecodeInput:
        """The turn with the grammar that counts now."""
        return self._spans[-1].turn if self._spans else self._first

    def find(self, count: int) -> DecodeInput:
        """Returns the turn with the grammar that counts after this many tokens."""
        return self._list(count)[-1].turn

    def replay(self, tokens: Sequence[int]) -> Matcher:
        """Makes a matcher that has committed these first tokens of the turn."""
        span = self._list(len(tokens))[-1]
        matcher = span.matcher.fork()
        for token in tokens[span.start :]:
            matcher.commit(token)
        return matcher

    def cut(self, count: int) -> None:
        """Forgets the grammars that count only after more than these tokens."""
        self._spans = self._list(count)

    def add(self, rest: DecodeInput, *, start: int, since: int) -> None:
        """Adds the grammar of the rest of a turn.

        Args:
            since: the number of tokens from which on it counts.
        """
        assert rest.matcher is not None
        self._spans.append(_Span(rest, rest.matcher, start=start, since=since))

    def _list(self, count: int) -> list[_Span]:
        """Lists the grammars that count after this many tokens."""
        spans = [span for span in self._spans if span.since <= count]
        assert spans, "the turn has a grammar"
        return spans
