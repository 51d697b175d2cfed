"""The completion reserve: at every step, an ending of the turn is known that still fits.

Before a token is taken, the shortest ending behind it is looked for, on a fork of the matcher. If
it no longer fits, the token is not taken, and the ending that was known before is written instead.
So a turn never outgrows its tokens, and nothing that was streamed is taken back.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import ceil
from typing import TypeAlias

import numpy as np

from constrained.decode.token_healing import spell_along
from constrained.decode.turn_part import TurnPart, TurnProgress, TurnView
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary, ends_inside
from grammars.ir.completion import TooLong
from grammars.ir.shortest import MOST_SPELLED

Complete: TypeAlias = Callable[[str, int], str | TooLong | None]
"""Takes the text of a turn under way, and how many characters there is room for; returns the
shortest text that ends it, if it knows one."""
MOST_SPELLINGS = 8  # tries, for data that spell markers
COSTLY = 2_000  # tokens of an ending; a longer one is not looked for at every step
PATIENCE = 32  # tokens kept in hand while no ending is known
MOST_UNREAD = 512
"""Tokens between two looks: each look reads what came since the last one, and others wait."""


class CompletionReserve(TurnPart):
    """Watches one turn. Most steps need no look: the last known ending still fits for sure.

    Args:
        complete: knows how the turn can end.
        vocabulary: that of the matcher.
        markers: token ids of the format's markers that are one token.
        stride: by how many tokens one token makes the shortest ending longer, at most; where it is
            more, the turn may be cut.
        longest_rest: by how many tokens any number of tokens does, at most; None: nobody knows.
        limit: the number of tokens that the turn may have.

    Attributes:
        ending: the tokens that end the turn from where it was looked at last; None: no ending is
            known.
    """

    name = "completion reserve"

    def __init__(
        self,
        complete: Complete,
        vocabulary: Vocabulary,
        *,
        markers: Mapping[str, int],
        stride: int,
        longest_rest: int | None = None,
        limit: int,
    ):
        self._complete = complete
        self._vocabulary = vocabulary
        self._markers = markers
        self._stride = stride
        self._longest_rest = longest_rest
        self._limit = limit
        self._safe = 0  # so many more tokens can be taken without a look
        self._last = 0  # tokens that the turn had at the last look
        self._was_known = False
        self._before: TurnProgress | None = None  # set if the next tokens need a look
        self.ending: list[int] | None = None

    def start(self, progress: TurnProgress) -> int | None:
        """Looks for the shortest turn from here on; returns its length in tokens, or at least so
        many where it is far too long; None if none is known."""
        found = self.find_ending(progress)
        if isinstance(found, TooLong):
            return progress.count + ceil(found.least / self._vocabulary.longest)
        self.ending = found
        self._plan_look(progress.count)
        if found is None:
            return None
        return progress.count + len(found)

    def needs_text(self, turn: TurnView, coming: int) -> bool:
        return self._needs_look(turn.count + coming)

    def _needs_look(self, count: int) -> bool:
        """True unless a turn of so many tokens can end in time for sure."""
        return count > self._limit or count - self._last > self._safe

    def before_commit(self, tokens: Sequence[int], turn: TurnView) -> None:
        """Keeps a fork in front of the tokens, unless the turn can end in time for sure."""
        self._before = None
        if not self._needs_look(turn.count + len(tokens)):
            return
        # A fork costs microseconds, an ending a search: that waits until it is needed.
        if turn.matcher is not None:
            self._before = turn.transcript.measure(turn.matcher.fork())

    def after_commit(self, tokens: Sequence[int], turn: TurnView) -> bool:
        """True if the turn can still end in time behind the tokens; if not, and if it could before,
        `ending` has to be written in their place."""
        if self._before is None or turn.matcher is None:
            return True
        return self._admits(self._before, turn.transcript.measure(turn.matcher, tokens))

    def _admits(self, before: TurnProgress, after: TurnProgress) -> bool:
        if after.count > self._limit:
            self._look_back(before)
            return False
        ending = self.find_ending(after)
        if isinstance(ending, TooLong):
            self._look_back(before)
            return False
        if ending is not None:
            wanted = after.count + len(ending)
        else:  # the turn goes on, but not to the last token
            wanted = after.count + 2 * len(self.ending or ()) + PATIENCE
        if wanted > self._limit:
            self._look_back(before)
            return self.ending is None
        self.ending = ending
        self._plan_look(after.count)
        return True

    def _look_back(self, before: TurnProgress) -> None:
        """Makes sure that `ending` is one from there that fits; None if there is none."""
        if self._last != before.count:
            ending = self.find_ending(before)
            self.ending = None if isinstance(ending, TooLong) else ending
            self._last, self._safe = before.count, 0
        if self.ending is not None and before.count + len(self.ending) > self._limit:
            self.ending = None

    def _plan_look(self, count: int) -> None:
        """Sets the number of tokens that can follow before an ending might no longer fit."""
        self._last = count
        if self.ending is None:
            # Where no ending was ever known, one may not come for long: not each token has a look.
            slack = self._limit - count
            self._safe = 0 if self._was_known else min(PATIENCE, slack // 4)
            return
        self._was_known = True
        # A token taken and `stride` more of the ending: both come out of the slack.
        slack = self._limit - count - len(self.ending)
        self._safe = max(0, slack // (self._stride + 1))
        if self._longest_rest is not None:
            # Twice, for what a format writes around a call is estimated only.
            self._safe = max(self._safe, slack - 2 * self._longest_rest - PATIENCE)
        if len(self.ending) > COSTLY:
            self._safe = max(self._safe, min(slack // 2, COSTLY // 32))
        self._safe = min(self._safe, MOST_UNREAD)

    def find_ending(self, progress: TurnProgress) -> list[int] | TooLong | None:
        """An ending that the matcher takes from here."""
        matcher = progress.matcher.fork()
        healed = spell_along(matcher, progress.rest, self._vocabulary)
        if healed is None:
            return None
        written = progress.text + self._vocabulary.text(healed)
        character = finish_character(matcher, written, self._vocabulary)
        if character is None:
            return None
        written += self._vocabulary.text(character)
        # Also more than there is room for: whoever is refused learns how much it takes.
        room = max(self._limit * self._vocabulary.longest, MOST_SPELLED)
        suffix = self._complete(written.decode("utf-8", "replace"), room)
        if suffix is None or isinstance(suffix, TooLong):
            return suffix
        for ending in self._spell(suffix):
            fork = matcher.fork()
            if fork.takes(ending) and fork.is_complete:
                return [*healed, *character, *ending]
        return None

    def _spell(self, text: str) -> Iterator[list[int]]:
        """The text in tokens: every marker as one, or, since data may spell markers too, only those
        behind one of the first few."""
        yield self._vocabulary.encode_marked(text, self._markers)
        marker = "|".join(map(re.escape, self._markers)) or "(?!)"
        for found in islice(re.finditer(marker, text), MOST_SPELLINGS):
            data, rest = text[: found.end()], text[found.end() :]
            spelled = self._vocabulary.encode(data, self._markers)
            yield spelled + self._vocabulary.encode_marked(rest, self._markers)


def finish_character(matcher: Matcher, text: bytes, vocabulary: Vocabulary) -> list[int] | None:
    """The tokens that complete a character of which only some bytes are written; commits them.

    Returns:
        None if the matcher knows no such tokens.
    """
    tokens: list[int] = []
    for _ in range(4):  # bytes of the longest UTF-8 character
        if not ends_inside(text):
            return tokens
        allowed = np.flatnonzero(matcher.mask() & vocabulary.continuations)
        if not len(allowed):
            return None
        token = int(allowed[0])
        matcher.commit(token)
        tokens.append(token)
        text += vocabulary.tokens[token]
    return None
