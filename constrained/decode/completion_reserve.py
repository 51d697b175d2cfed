"""The completion reserve: at every step, there is a known ending of the turn that still fits.

Before a token is taken, an ending after it is found, on a fork of the matcher: the known ending, or
what is left of it, if the grammar still accepts that; otherwise the shortest ending is computed. If
even that no longer fits, the token is not taken, and the ending before it is written instead. So a
turn never exceeds its limit of tokens, and nothing that was streamed is taken back.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import ceil
from typing import TypeAlias

import numpy as np

from constrained.decode.token_healing import spell_along
from constrained.decode.turn_part import TurnPart, TurnProgress, TurnView
from constrained.engine.vocabulary.vocabulary import Vocabulary, ends_inside
from constrained.mask.matcher import Matcher
from grammars.turn_grammar.ir.completion import Accepts, TooLong
from grammars.turn_grammar.ir.shortest import MAX_SPELLED

Complete: TypeAlias = Callable[[str, int, Accepts], str | TooLong | None]
"""Takes the text of an unfinished turn, the maximum number of characters, and a check of a text;
returns the shortest text that ends the turn, or None if it knows none."""
MAX_SPELLINGS = 8  # attempts, for data that contain the text of markers
COSTLY = 2_000  # tokens of an ending; a longer one is not computed at every step
PATIENCE = 32  # tokens that are kept back while no ending is known
MAX_CHECKED = 20_000
"""Tokens of possible endings that one search gives to the matcher, which takes 4 us for each."""
MAX_UNREAD = 512
"""Tokens between two searches: each reads the text since the last one, while other turns wait."""


class CompletionReserve(TurnPart):
    """The completion reserve of one turn. Most steps need no search: the last ending surely fits.

    Args:
        stride: how many tokens one more token can add to the shortest ending, at most. If it adds
            more, the turn may be cut.
        longest_rest: how many tokens any text can add to the shortest ending, at most; None: not
            known.
        limit: the maximum number of tokens of the turn.

    Attributes:
        ending: the tokens that end the turn at the position of the last look; None: no ending is
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
        longest_rest: int | None,
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
        self._searched = 0  # tokens that the turn had at the last search
        self.ending: list[int] | None = None

    def start(self, progress: TurnProgress) -> int | None:
        """Finds the shortest turn.

        Returns its length in tokens, or a lower bound if it is far too long; None: none is known.
        """
        found = self.find_ending(progress)
        if isinstance(found, TooLong):
            return progress.count + ceil(found.least / self._vocabulary.longest)
        self._keep(found, progress.count, is_found=True)
        if found is None:
            return None
        return progress.count + len(found)

    def admits(self, tokens: Sequence[int], turn: TurnView) -> bool:
        """True if the turn can still end in time after the tokens. If it cannot, but could before,
        `ending` has to be written instead of them."""
        count = len(turn.transcript.tokens) + len(tokens)
        if turn.matcher is None or not self._needs_look(count):
            return True
        matcher = turn.matcher.fork()
        for token in tokens:
            matcher.commit(token)
        after = turn.transcript.measure(matcher, tokens)
        if self._still_ends(after, tokens):
            return True
        return self._fits(turn.transcript.measure(turn.matcher), after)

    def _needs_look(self, count: int) -> bool:
        """False if a turn of this many tokens can surely end in time."""
        return count > self._limit or count - self._last > self._safe

    def _still_ends(self, after: TurnProgress, taken: Sequence[int]) -> bool:
        """True if the known ending, or what is left of it after the taken tokens, still ends the
        turn in time. Most tokens are inside a text, or follow the ending; a search takes several
        times as long."""
        if self.ending is None or after.rest or after.count - self._searched > MAX_UNREAD:
            return False
        ending = self.ending
        if ending[: len(taken)] == [*taken]:
            ending = ending[len(taken) :]
        if after.count + len(ending) > self._limit:
            return False
        fork = after.matcher.fork()
        if not fork.try_commit(ending) or not fork.is_complete:
            return False
        self._keep(ending, after.count, is_found=False)
        return True

    def _fits(self, before: TurnProgress, after: TurnProgress) -> bool:
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
        self._keep(ending, after.count, is_found=True)
        return True

    def _look_back(self, before: TurnProgress) -> None:
        """Sets `ending` to the shortest one at an earlier position; None: none that fits is
        known."""
        if self._last != before.count:
            self.ending = None
        if self._searched != before.count:
            found = self.find_ending(before)
            # The shortest text may have more tokens than the known ending.
            if isinstance(found, list) and (self.ending is None or len(found) < len(self.ending)):
                self.ending = found
            self._last = self._searched = before.count
            self._safe = 0
        if self.ending is not None and before.count + len(self.ending) > self._limit:
            self.ending = None

    def _keep(self, ending: list[int] | None, count: int, *, is_found: bool) -> None:
        self.ending = ending
        if is_found:
            self._searched = count
        self._plan_look(count)

    def _plan_look(self, count: int) -> None:
        """Computes how many tokens can follow before the ending might no longer fit."""
        self._last = count
        if self.ending is None:
            # If no ending was ever known, there may be none for long: no search at each token.
            slack = self._limit - count
            self._safe = 0 if self._was_known else min(PATIENCE, slack // 4)
            return
        self._was_known = True
        # A token taken and `stride` more of the ending: both come out of the slack.
        slack = self._limit - count - len(self.ending)
        self._safe = max(0, slack // (self._stride + 1))
        if self._longest_rest is not None:
            # Twice, since the text that a format writes around a call is only estimated.
            self._safe = max(self._safe, slack - 2 * self._longest_rest - PATIENCE)
        if len(self.ending) > COSTLY:
            self._safe = max(self._safe, min(slack // 2, COSTLY // 32))
        self._safe = min(self._safe, MAX_UNREAD)

    def find_ending(self, progress: TurnProgress) -> list[int] | TooLong | None:
        """An ending that the matcher accepts at this position; None: none is known."""
        matcher = progress.matcher.fork()
        healed = spell_along(matcher, progress.rest, self._vocabulary)
        if healed is None:
            return None
        written = progress.text + self._vocabulary.text(healed)
        character = finish_character(matcher, written, self._vocabulary)
        if character is None:
            return None
        written += self._vocabulary.text(character)
        # More than fits, so that the error can say how much is needed.
        room = max(self._limit * self._vocabulary.longest, MAX_SPELLED)
        ending: list[int] | None = None
        checked = 0

        def accepts(text: str) -> bool:
            nonlocal ending, checked
            for ending in self._spell(text):
                checked += len(ending)
                if checked > MAX_CHECKED:
                    break
                fork = matcher.fork()
                if fork.try_commit(ending) and fork.is_complete:
                    return True
            ending = None
            return False

        suffix = self._complete(written.decode("utf-8", "replace"), room, accepts)
        if isinstance(suffix, TooLong):
            return suffix
        if suffix is None or ending is None:
            return None
        return [*healed, *character, *ending]

    def _spell(self, text: str) -> Iterator[list[int]]:
        """Ways to encode the text. At first every marker is one token. Since data may contain the
        text of markers, too, the next ways encode the first markers as ordinary text."""
        yield self._vocabulary.encode_marked(text, self._markers)
        marker = "|".join(map(re.escape, self._markers)) or "(?!)"
        for found in islice(re.finditer(marker, text), MAX_SPELLINGS):
            data, rest = text[: found.end()], text[found.end() :]
            spelled = self._vocabulary.encode(data, self._markers)
            yield spelled + self._vocabulary.encode_marked(rest, self._markers)


def finish_character(matcher: Matcher, text: bytes, vocabulary: Vocabulary) -> list[int] | None:
    """Completes a character of which only some bytes are written; commits its tokens.
    Returns these; None if the matcher allows none."""
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
