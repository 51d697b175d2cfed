"""Prompt lookup: drafts that are copied from earlier text of the prompt or the turn.

Arguments often repeat words of the prompt. If the turn repeats an earlier text, the next tokens of
that text are a draft. If the grammar forces a text but not how it is cut into tokens, its likely
tokens are a draft, too.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, takewhile

from constrained.decode.drafts.decode_costs import ALONE, DraftBudget, DraftCosts
from constrained.decode.turn_part import TurnPart, TurnView
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import GrammarError, ModelError
from constrained.mask.matcher import Matcher

FEWEST_BYTES = 4  # of a repeated text; shorter ones are found everywhere
LONGEST = 48  # the maximum bytes that are compared
BYTES_A_TOKEN = 4  # repeated bytes that are needed for each drafted token
SURE = 16  # repeated bytes after which a text very likely continues as before
MAX_TRIES = 4  # matches inside longer words, which do not count, before the search ends


class PromptLookup(TurnPart):
    """Speculative decoding of one turn, with drafts by prompt lookup.

    A draft is decoded together with the last certain token. Then the sampler samples token by
    token, and the drafted tokens are accepted as long as they are the sampled ones. Decoding
    several tokens takes little more time than one; the budgets limit what rejected drafts may cost.

    Bytes are compared, not tokens: the same word is other tokens after a quotation mark than after
    a space.
    """

    name = "speculation"

    def __init__(self, prompt: Sequence[int], vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._stops = vocabulary.control.union(vocabulary.end)
        self._tokens = list(prompt)
        self._text = bytearray(vocabulary.text(prompt))
        self._starts = [0, *accumulate(len(vocabulary.tokens[token]) for token in prompt)]
        self._head = self._run = len(self._tokens)
        # Each kind of draft has its own budget, since some kinds are accepted more often.
        self._guesses = DraftBudget()
        self._copies = DraftBudget()
        self._spellings = DraftBudget()
        self._budget = self._guesses  # that of the last draft
        self._costs = ALONE  # of the last draft
        self._drafted = 0  # tokens of the last draft
        self._saved = 0.0  # decodes that the last draft has saved
        self._has_failed = False

    def begin(self, drafted: int) -> None:
        """Notes that a draft of some tokens was decoded; the turn has not taken any of them yet."""
        self._drafted, self._saved = drafted, 0.0

    def after_take(self, token: int, turn: TurnView, *, is_forced: bool, is_computed: bool) -> None:
        self.note(token, is_forced=is_forced)
        if is_computed:
            # Without the draft, a forced token would only have made the next decode longer.
            self._saved += self._costs.token if is_forced else 1.0

    def note(self, token: int, *, is_forced: bool) -> None:
        """Adds a token of the turn.

        Args:
            is_forced: it was not sampled. Repeated text is only looked for in the tokens after it.
        """
        self._text += self._vocabulary.tokens[token]
        self._tokens.append(token)
        self._starts.append(len(self._text))
        if is_forced:
            self._run = len(self._tokens)

    def rewind(self, count: int) -> None:
        length = self._head + count
        del self._tokens[length:], self._text[self._starts[length] :], self._starts[length + 1 :]
        self._run = min(self._run, length)

    def charge(self) -> None:
        """Charges the last draft to its budget, after the turn has taken its tokens."""
        for budget in (self._guesses, self._copies, self._spellings):
            if budget is self._budget:
                budget.charge(self._costs.find(self._drafted), self._saved)
            else:
                budget.recover()

    def propose(
        self, matcher: Matcher | None, max_tokens: int, costs: DraftCosts = ALONE
    ) -> list[int]:
        """Returns a draft of up to `max_tokens` tokens; it is empty if none is likely enough, or
        worth its costs."""
        self._costs = costs
        if self._has_failed:
            return []
        try:
            draft = self._propose(matcher, max_tokens, costs)
        except GrammarError:  # a fork has failed; if the matcher has, its next use raises, too
            self._has_failed = True
            return []
        return draft if costs.pays(len(draft)) else []

    def _propose(self, matcher: Matcher | None, max_tokens: int, costs: DraftCosts) -> list[int]:
        copied = self._copy(max_tokens, costs)
        if matcher is None:
            return copied
        draft = extend_draft(matcher, copied, max_tokens=max_tokens, vocabulary=self._vocabulary)
        if copied and draft[:1] == copied[:1]:
            return draft[: min(self._budget.count_affordable(costs), 2 * len(copied) + 1)]
        self._budget = self._spellings
        return draft[: self._budget.count_affordable(costs)]

    def _copy(self, max_tokens: int, costs: DraftCosts) -> list[int]:
        kinds = (self._guesses, self._copies)
        if not any(budget.count_affordable(costs) for budget in kinds):
            return []  # the search takes time, too
        position = self._find()
        if position is None:
            return []
        same = self._compare(position)
        self._budget = self._guesses if same < SURE else self._copies
        affordable = self._budget.count_affordable(costs)
        return self._read(position, min(max_tokens, same // BYTES_A_TOKEN, affordable))

    def _find(self) -> int | None:
        """Returns the position after an earlier text that the turn repeats; None: there is none."""
        for count in (4, 2, 1):
            start = self._starts[max(self._run, len(self._tokens) - count)]
            if len(self._text) - start < FEWEST_BYTES or (count == 1 and not self._begins(start)):
                continue
            position = self._search(start)
            if position is not None:
                return position
        return None

    def _begins(self, start: int) -> bool:
        """True if a value begins here; then its first token alone is looked for."""
        before = self._text[start - 1 : start]
        return not (_is_letter(before) or before.isspace()) or before == b"\n"

    def _search(self, start: int) -> int | None:
        """Returns the end of the last earlier text that equals the text from `start` on. A word is
        not found inside another word."""
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
        """Returns how many bytes before the position equal the last bytes of the turn."""
        begin, end = self._starts[self._run], len(self._text)
        longest = min(LONGEST, end - begin, position)
        for same in range(longest):
            if self._text[position - 1 - same] != self._text[end - 1 - same]:
                return same
        return longest

    def _read(self, position: int, max_tokens: int) -> list[int]:
        """Returns up to `max_tokens` tokens of the text from this position on."""
        first = bisect_left(self._starts, position)
        rest = bytes(self._text[position : self._starts[first]])  # of a token that began earlier
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
    """Returns the copied tokens that the grammar allows, and those that it forces after them."""
    tokens: Sequence[int] = ()
    if copied:
        tokens = copied[: matcher.count_accepted(copied)]
    if not tokens:
        tokens = spell_text(matcher.forced_text(), vocabulary)
    if not tokens:
        return []
    draft: list[int] = []
    fork = matcher.fork()
    while len(draft) < max_tokens:
        legal = tokens[: fork.count_accepted(tokens)]
        if not legal:
            break
        for token in legal:
            fork.commit(token)
        draft += legal
        # llguidance gives forced tokens only if it is certain how the forced text is cut.
        tokens = fork.forced() or spell_text(fork.forced_text(), vocabulary)
        tokens = [*takewhile(lambda token: not fork.ends(token), tokens)]
    return draft[:max_tokens]


def spell_text(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """Encodes a text; returns no tokens if it breaks off inside a character."""
    if not text:
        return []
    try:
        return vocabulary.encode(text.decode())
    except (UnicodeDecodeError, ModelError):  # ModelError: no token for a byte
        return []
