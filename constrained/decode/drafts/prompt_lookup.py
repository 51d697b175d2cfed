"""Drafts by prompt lookup: they are copied from the text in front of a turn.

Arguments repeat words of the prompt. Where a turn goes along a text that was there before, the next
tokens of that text are a draft. So are the tokens of a text that the grammar forces, where it
leaves open how it is cut into tokens.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, takewhile

from constrained.decode.drafts.draft_budget import DraftBudget
from constrained.errors import ModelError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary

FEWEST_BYTES = 4  # shorter texts are found everywhere
LONGEST = 48  # bytes of a text that are compared
BYTES_A_TOKEN = 4  # so much has to agree for each token that is drafted
SURE = 16  # bytes that agree: the text goes on as it did
MAX_TRIES = 4  # finds of a text inside longer words, which do not count


class PromptLookup:
    """Drafts for one turn, by prompt lookup: no second model, no training.

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
        # The drafts so far say how likely the next one is right, but only one of the same kind.
        self._guesses = DraftBudget()
        self._copies = DraftBudget()
        self._spellings = DraftBudget()
        self._budget = self._guesses  # that of the last draft

    @property
    def tokens(self) -> Sequence[int]:
        """Those of the prompt and of the turn."""
        return self._tokens

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

    def charge(self, drafted: int, saved: float) -> None:
        """A decode is over that had so many drafted tokens, which saved so many decodes."""
        for budget in (self._guesses, self._copies, self._spellings):
            if budget is self._budget:
                budget.charge(drafted, saved)
            else:
                budget.charge(0, 0.0)

    def propose(self, matcher: Matcher | None, max_tokens: int) -> list[int]:
        """Tokens that may come next, at most so many; none if that is not worth it."""
        copied = self._copy(max_tokens)
        if matcher is None:
            return copied
        draft = extend_draft(matcher, copied, max_tokens=max_tokens, vocabulary=self._vocabulary)
        if copied and draft[:1] == copied[:1]:
            return draft[: min(self._budget.affords, 2 * len(copied) + 1)]
        self._budget = self._spellings
        return draft[: self._budget.affords]

    def _copy(self, max_tokens: int) -> list[int]:
        if not (self._guesses.affords or self._copies.affords):
            return []  # looking for a text takes time, too
        position = self._find()
        if position is None:
            return []
        same = self._compare(position)
        self._budget = self._guesses if same < SURE else self._copies
        return self._read(position, min(max_tokens, same // BYTES_A_TOKEN, self._budget.affords))

    def _find(self) -> int | None:
        """The position behind an earlier text that the turn repeats; None: it repeats none."""
        for count in (4, 2, 1):
            start = self._starts[max(self._run, len(self._tokens) - count)]
            if len(self._text) - start < FEWEST_BYTES or (count == 1 and not self._begins(start)):
                continue
            position = self._search(start)
            if position is not None:
                return position
        return None

    def _begins(self, start: int) -> bool:
        """True if a value begins here: then one token of it is enough to look for it."""
        before = self._text[start - 1 : start]
        return not (_is_letter(before) or before.isspace()) or before == b"\n"

    def _search(self, start: int) -> int | None:
        """The end of the last text that is the same as that from `start` on; words are not found
        inside others."""
        text = bytes(self._text[start:])
        position = len(self._text) - 1
        is_word = _is_letter(text[:1]) and not _is_letter(self._text[start - 1 : start])
        for _ in range(MAX_TRIES):
            position = self._text.rfind(text, 0, position)
            if position < 0:
                return None
            if not (is_word and _is_letter(self._text[position - 1 : position])):
                return position + len(text)
            position += len(text) - 1
        return None

    def _compare(self, position: int) -> int:
        """The number of bytes in front of the position that are the last ones of the turn."""
        begin, end = self._starts[self._run], len(self._text)
        longest = min(LONGEST, end - begin, position)
        for same in range(longest):
            if self._text[position - 1 - same] != self._text[end - 1 - same]:
                return same
        return longest

    def _read(self, position: int, max_tokens: int) -> list[int]:
        """Up to `max_tokens` tokens of the text, from this position on."""
        first = bisect_left(self._starts, position)
        rest = bytes(self._text[position : self._starts[first]])  # of a token that begins before it
        head = spell_text(rest, self._vocabulary)
        if rest and not head:
            return []
        tokens = (head + self._tokens[first : first + max_tokens])[:max_tokens]
        return [*takewhile(lambda token: token not in self._stops, tokens)]


def _is_letter(byte: bytes | bytearray) -> bool:
    return byte.isalnum() or byte > b"\x7f"


def extend_draft(
    matcher: Matcher, copied: Sequence[int], *, max_tokens: int, vocabulary: Vocabulary
) -> list[int]:
    """The copied tokens that the grammar allows, and those that have to follow then.

    Args:
        matcher: of the turn; it stays as it is.
        copied: tokens that are likely to come next; none: only what is forced.
        max_tokens: tokens of the draft, at most.
        vocabulary: that of the matcher.
    """
    tokens: Sequence[int] = ()
    if copied:
        tokens = copied[: matcher.accepts(copied)]
    if not tokens:
        tokens = spell_text(matcher.forced_text(), vocabulary)
    if not tokens:
        return []
    draft: list[int] = []
    fork = matcher.fork()
    while len(draft) < max_tokens:
        legal = tokens[: fork.accepts(tokens)]
        if not legal:
            break
        for token in legal:
            fork.commit(token)
        draft += legal
        # llguidance gives forced tokens only where their cut is certain, their text always.
        tokens = fork.forced() or spell_text(fork.forced_text(), vocabulary)
        tokens = [*takewhile(lambda token: not fork.ends(token), tokens)]
    return draft[:max_tokens]


def spell_text(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """The tokens that a text most likely has; none if it breaks off inside a character."""
    if not text:
        return []
    try:
        return vocabulary.encode(text.decode())
    except (UnicodeDecodeError, ModelError):  # also where there is no token for a byte
        return []
