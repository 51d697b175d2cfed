"""Drafts: what a turn may go on with, copied from the text in front of it.

Arguments repeat words of the prompt. Where a turn goes along a text that was there before, the next
tokens of that text are decoded together with the last one that is certain, and then checked one by
one: they are kept as far as they are what would have been drawn anyway. So are the tokens of a text
that the grammar forces, where it leaves open how it is cut into tokens. Several tokens then cost
little more than one; but those that were drafted in vain are a loss, which is kept small.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, takewhile

from constrained.errors import ModelError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary

# What a draft costs, of a decode of one token: so much at once, and so much for each token. Fitted
# to decodes of 1 to 11 tokens on 2 cores (`python -m benchmarks.passes`); more cores make it less.
START, COST = 0.2, 0.3
# What drafts of one kind may lose, in decodes: so much at once in the beginning, ...
CREDIT = 1.5
# ... so much with each decode, ...
ALLOWANCE = 0.007
# ... and so much of what they have saved.
MOST_CREDIT = 8.0
FEWEST_BYTES = 4  # shorter texts are found everywhere
LONGEST = 48  # bytes of a text that are compared
BYTES_A_TOKEN = 4  # so much has to agree for each token that is drafted
SURE = 16  # bytes that agree: the text goes on as it did
MOST_TRIES = 4  # places where a text may stand without being what is looked for


def find_cost(drafted: int) -> float:
    """What a draft of so many tokens costs, in decodes of one token."""
    return START + COST * drafted if drafted else 0.0


class Purse:
    """How much may still be lost by drafts, in decodes: less than they have saved, and a bit."""

    def __init__(self) -> None:
        self._credit = CREDIT

    @property
    def affords(self) -> int:
        """How many tokens may be drafted now."""
        return max(0, int((self._credit - START) / COST + 1e-9))

    def settle(self, drafted: int, saved: float) -> None:
        """A decode is over that had so many drafted tokens, which saved so many decodes."""
        credit = self._credit + ALLOWANCE + saved - find_cost(drafted)
        self._credit = min(credit, MOST_CREDIT)


class Drafter:
    """Drafts for one turn.

    Texts are compared, not tokens: what follows a quotation mark is cut into other tokens than what
    follows a space.

    Args:
        prompt: in front of the turn.
        vocabulary: that of the model.
    """

    def __init__(self, prompt: Sequence[int], vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._stops = vocabulary.control.union(vocabulary.end)
        self._tokens = list(prompt)
        self._text = bytearray(vocabulary.text(prompt))
        self._starts = [0, *accumulate(len(vocabulary.tokens[token]) for token in prompt)]
        self._head = self._run = len(self._tokens)
        # What was right so far tells how likely the next draft is, but only one of the same kind.
        self._guesses, self._copies, self._spellings = Purse(), Purse(), Purse()
        self._purse = self._guesses  # that of the last draft

    def note(self, token: int, *, is_forced: bool) -> None:
        """The turn goes on with this token; one that is forced says nothing of what is copied."""
        self._text += self._vocabulary.tokens[token]
        self._tokens.append(token)
        self._starts.append(len(self._text))
        if is_forced:
            self._run = len(self._tokens)

    def cut(self, count: int) -> None:
        """The turn has only its first tokens, so many."""
        length = self._head + count
        del self._tokens[length:], self._text[self._starts[length] :], self._starts[length + 1 :]
        self._run = min(self._run, length)

    def settle(self, drafted: int, saved: float) -> None:
        """A decode is over that had so many drafted tokens, which saved so many decodes."""
        for purse in (self._guesses, self._copies, self._spellings):
            is_last = purse is self._purse
            purse.settle(drafted if is_last else 0, saved if is_last else 0.0)

    def propose(self, matcher: Matcher | None, most: int) -> list[int]:
        """Tokens that may come next, at most so many; none if that is not worth it."""
        copied = self._copy(most)
        if matcher is None:
            return copied
        draft = fit(matcher, copied, most, self._vocabulary)
        if copied and draft[:1] == copied[:1]:
            return draft[: min(self._purse.affords, 2 * len(copied) + 1)]
        self._purse = self._spellings
        return draft[: self._purse.affords]

    def _copy(self, most: int) -> list[int]:
        may_copy = self._guesses.affords or self._copies.affords
        place = self._find() if may_copy else None  # looking for it takes time, too
        if place is None:
            return []
        same = self._compare(place)
        self._purse = self._guesses if same < SURE else self._copies
        return self._read(place, min(most, same // BYTES_A_TOKEN, self._purse.affords))

    def _find(self) -> int | None:
        """Where the text goes on that the turn goes along; None: it goes along none."""
        for count in (4, 2, 1):
            start = self._starts[max(self._run, len(self._tokens) - count)]
            if len(self._text) - start < FEWEST_BYTES or (count == 1 and not self._begins(start)):
                continue
            place = self._search(start)
            if place is not None:
                return place
        return None

    def _begins(self, start: int) -> bool:
        """Does a value begin here? One token of it is enough to look for it then."""
        before = self._text[start - 1 : start]
        return not (_is_letter(before) or before.isspace()) or before == b"\n"

    def _search(self, start: int) -> int | None:
        """Where the text from `start` on was last, its end; words are not found inside others."""
        text, place = bytes(self._text[start:]), len(self._text) - 1
        is_word = _is_letter(text[:1]) and not _is_letter(self._text[start - 1 : start])
        for _ in range(MOST_TRIES):
            place = self._text.rfind(text, 0, place)
            if place < 0:
                return None
            if not (is_word and _is_letter(self._text[place - 1 : place])):
                return place + len(text)
            place += len(text) - 1
        return None

    def _compare(self, place: int) -> int:
        """How many bytes in front of the place are those that the turn has last."""
        begin, end = self._starts[self._run], len(self._text)
        most = min(LONGEST, end - begin, place)
        pairs = ((self._text[place - n], self._text[end - n]) for n in range(1, most + 1))
        return next((n for n, (one, other) in enumerate(pairs) if one != other), most)

    def _read(self, place: int, most: int) -> list[int]:
        """At most so many tokens of the text from a place on."""
        first = bisect_left(self._starts, place)
        rest = bytes(self._text[place : self._starts[first]])  # of the token that the place is in
        head = spell(rest, self._vocabulary)
        if rest and not head:
            return []
        tokens = (head + self._tokens[first : first + most])[:most]
        return [*takewhile(lambda token: token not in self._stops, tokens)]


def _is_letter(byte: bytes | bytearray) -> bool:
    return byte.isalnum() or byte > b"\x7f"


def fit(matcher: Matcher, tokens: Sequence[int], most: int, vocabulary: Vocabulary) -> list[int]:
    """What of a draft the grammar allows, and what has to follow then, at most so many tokens."""
    tokens = tokens[: matcher.accepts(tokens)] if tokens else ()
    tokens = tokens or spell(matcher.forced_text(), vocabulary)
    draft, fork = list[int](), matcher.fork() if tokens else matcher
    while len(draft) < most and (legal := tokens[: fork.accepts(tokens)]):
        for token in legal:
            fork.commit(token)
        draft += legal
        tokens = fork.forced() or spell(fork.forced_text(), vocabulary)
        tokens = [*takewhile(lambda token: not fork.ends(token), tokens)]
    return draft[:most]


def spell(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """The tokens that a text most likely has; none if it breaks off inside a character."""
    try:
        return vocabulary.encode(text.decode()) if text else []
    except (UnicodeDecodeError, ModelError):  # also where there is no token for a byte
        return []
