"""Drafts of a small model with the same vocabulary, under the grammar of the turn.

The mask applies to drafts, too. Tokens that the grammar forces need no decode of the draft model.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from constrained.decode.drafts.decode_costs import DecodeCosts, DraftCosts
from constrained.decode.drafts.draft_budget import DraftBudget
from constrained.decode.drafts.draft_options import DraftOptions
from constrained.engine.protocol import Chunk, Engine
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ContextError, GrammarError, RequestError
from constrained.limits.deadline import Clock
from constrained.mask.matcher import Matcher
from grammars.wire.format import count_common

STEP = 512  # maximum tokens of one decode of the draft model
MAX_TIMED = 16  # tokens of a chunk; decodes with longer ones do not tell what drafting costs
SOON = 4  # decodes of a turn: if the draft model reads the prompt as fast, it does so at once
ALLOWANCE = 0.03
"""The decodes of a turn that drafts may lose with each decode, see `DraftBudget`. It is more than
for copied drafts: a small model is often unsure for a sentence, and right in the next."""


@dataclass(eq=False)
class DraftAsk:
    """What a turn asks the draft model for.

    Args:
        sequence: the number of its sequence.
        tokens: all tokens of prompt and turn.
        matcher: a fork of the turn's, which drafting changes; None: the turn is free text.
        end: the tokens that end the turn.
        max_tokens: the maximum number of tokens of the draft.

    Attributes:
        draft: the drafted tokens.
        seconds: the part of the draft model's time that the turn has taken.
        drafting_seconds: the same without reading the prompt, as decodes usually take.
        has_failed: the matcher has failed.
        has_no_room: the context of the draft model is too small for this turn beside the others.
    """

    sequence: int
    tokens: Sequence[int]
    matcher: Matcher | None
    end: frozenset[int]
    max_tokens: int
    draft: list[int] = field(default_factory=list[int])
    seconds: float = 0.0
    drafting_seconds: float = 0.0
    has_failed: bool = False
    has_no_room: bool = False


class DraftModel:
    """A draft model, with one sequence for each sequence of the target model. Not thread-safe.

    Args:
        engine: runs the draft model; is closed with this object.
        vocabulary: of the target model.
        options: of drafting.
        clock: in seconds; for the time of decodes.

    Raises:
        RequestError: the vocabularies differ.
        ModelError: the engine failed.
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        options: DraftOptions,
        *,
        clock: Clock = time.monotonic,
    ):
        check_vocabulary(engine.vocabulary, vocabulary)
        self.options = options
        self._engine = engine
        self._width = len(vocabulary.tokens)
        self._known_tokens = min(self._width, len(engine.vocabulary.tokens))
        self._tokens: list[list[int]] = [[] for _ in range(engine.max_sequences)]
        self._clock = clock
        self._costs = DecodeCosts()
        self._time_decodes()

    def _time_decodes(self) -> None:
        """Measures a decode of one token and one of several. A first decode only allocates
        memory."""
        token = self._engine.vocabulary.bos or 0
        self._engine.decode([Chunk(0, [token] * MAX_TIMED, 0)])
        position = MAX_TIMED
        for size in (1, MAX_TIMED):
            since = self._clock()
            self._engine.decode([Chunk(0, [token] * size, position)])
            self._costs.note(self._engine.last_decode, self._clock() - since)
            position += size
        self._engine.release(0)

    def draft(self, asks: Sequence[DraftAsk]) -> None:
        """Drafts for turns of different sequences, and gives each its draft: each decode reads the
        next tokens of all of them.

        A turn gets no draft if its tokens do not fit into the context, if the draft model lacks one
        of them, or if a decode cannot take all that are still to be read.

        Raises:
            ModelError: the engine failed.
        """
        for ask in asks:
            self._cut_to_common(ask)
        active = [*asks]
        while active:
            active = self._draft_next(active)

    def _cut_to_common(self, ask: DraftAsk) -> None:
        """Cuts the sequence of a turn to the tokens that the turn begins with, but not to all: the
        last one is decoded for its logits."""
        known = self._tokens[ask.sequence]
        count = min(count_common(known, [*ask.tokens]), len(ask.tokens) - 1)
        if count < len(known):
            self._cut(ask.sequence, count)

    def _draft_next(self, asks: Sequence[DraftAsk]) -> list[DraftAsk]:
        """Drafts the next token of some turns in one decode; returns those that go on."""
        chosen = self._choose_chunks(asks)
        if not chosen:
            return []
        chunks = [chunk for _, chunk in chosen]
        since = self._clock()
        try:
            rows = iter(self._engine.decode(chunks))
        except ContextError:  # the sequences share the context, and others fill it
            self._make_room(asks)
            return []
        except Exception:
            for chunk in chunks:
                self._tokens[chunk.sequence].clear()  # the engine has released these sequences
            raise
        seconds = self._clock() - since
        sizes = [len(chunk.tokens) for chunk in chunks]
        if max(sizes) <= MAX_TIMED:
            self._costs.note(self._engine.last_decode, seconds)
        going_on = list[DraftAsk]()
        for ask, chunk in chosen:
            self._tokens[ask.sequence] += chunk.tokens
            ask.seconds += seconds * len(chunk.tokens) / sum(sizes)
            if not chunk.wanted:
                continue
            ask.drafting_seconds += self._costs.find_turn_seconds(len(chunks)) or 0.0
            if self._extend(ask, self._fit(next(rows))):
                going_on.append(ask)
        return going_on

    def _choose_chunks(self, asks: Sequence[DraftAsk]) -> list[tuple[DraftAsk, Chunk]]:
        """Returns the tokens to decode for each turn. Those with few tokens to read come first, so
        that a long prompt takes no room from them."""
        chosen = list[tuple[DraftAsk, Chunk]]()
        room = STEP
        for ask in sorted(asks, key=self._count_unread):
            known = len(self._tokens[ask.sequence])
            rest = [*ask.tokens[known:], *ask.draft[max(0, known - len(ask.tokens)) :]]
            read = rest[:room]
            fits = known + len(rest) < self._engine.context_length
            if not read or not fits or max(read) >= self._known_tokens:
                continue
            is_all = len(read) == len(rest)
            chosen.append((ask, Chunk(ask.sequence, read, known, wanted=int(is_all))))
            room -= len(read)
        return sorted(chosen, key=lambda pair: pair[1].sequence)

    def _count_unread(self, ask: DraftAsk) -> int:
        return len(ask.tokens) + len(ask.draft) - len(self._tokens[ask.sequence])

    def _extend(self, ask: DraftAsk, logits: np.ndarray) -> bool:
        """Adds the most likely token to a draft, and those that the grammar forces after it.

        Returns:
            True if the draft may go on.
        """
        since = self._clock()
        try:
            token = self._choose(ask, logits)
            if token is None:
                return False
            ask.draft.append(token)
            if ask.matcher is not None:
                ask.matcher.commit(token)
                ask.draft += _take_forced(ask.matcher)
        except GrammarError:  # of this turn alone
            ask.has_failed = True
            return False
        finally:
            ask.seconds += self._clock() - since
        del ask.draft[ask.max_tokens :]
        return len(ask.draft) < ask.max_tokens

    def _choose(self, ask: DraftAsk, logits: np.ndarray) -> int | None:
        """Returns the most likely allowed token; None if it is not likely enough, or ends the
        turn."""
        only = None if ask.matcher is None else ask.matcher.apply(logits)
        token = int(logits.argmax()) if only is None else only
        if token in ask.end:
            return None
        if only is None:
            probability = 1 / np.exp(logits - logits[token]).sum()
            if probability < self.options.least_probability:
                return None
        return token

    def find_reading_seconds(self, sequence: int, tokens: Sequence[int]) -> float:
        """Returns how long reading the tokens takes that a sequence does not have, but for the
        last one; 0: not known."""
        known = self._tokens[sequence]
        if 0 <= len(tokens) - len(known) <= MAX_TIMED:  # it goes on with its turn
            return 0.0
        unread = len(tokens) - 1 - count_common(known, [*tokens])
        return max(0, unread) * self._costs.token_seconds

    def find_token_cost(self, costs: DraftCosts) -> float:
        """Returns the cost of drafting one token, in decodes of a turn; 0.0: it is not known
        yet."""
        seconds = self._costs.find_turn_seconds(costs.turns)
        return seconds / costs.turn_seconds if seconds and costs.turn_seconds else 0.0

    def close(self) -> None:
        """Frees the draft model. A second call does nothing."""
        self._engine.close()

    def _cut(self, sequence: int, length: int) -> None:
        known = self._tokens[sequence]
        if not self._engine.rollback(sequence, length):
            self._engine.release(sequence)
            length = 0
        del known[length:]

    def _make_room(self, asks: Sequence[DraftAsk]) -> None:
        """Forgets the sequences of turns that are over; if there are none, the turn with the most
        tokens to read gets no more drafts."""
        asking = {ask.sequence for ask in asks}
        idle = [n for n, known in enumerate(self._tokens) if known and n not in asking]
        if not idle:
            longest = max(asks, key=self._count_unread)
            longest.has_no_room = True
            idle = [longest.sequence]
        for sequence in idle:
            self._engine.release(sequence)
            self._tokens[sequence].clear()

    def _fit(self, logits: np.ndarray) -> np.ndarray:
        """Returns logits with one value for each token of the target's vocabulary."""
        if len(logits) == self._width:
            return logits
        fitted = np.full(self._width, -np.inf, np.float32)
        fitted[: self._known_tokens] = logits[: self._known_tokens]
        return fitted


def check_vocabulary(draft: Vocabulary, target: Vocabulary) -> None:
    """Checks that two models have the same tokens. Unused tokens at the end do not count: models of
    one family have different numbers of them (Qwen2.5: 151,936 and 152,064 tokens).

    Raises:
        RequestError: a token differs; the message says which one.
    """
    for token, (ours, theirs) in enumerate(zip(draft.tokens, target.tokens, strict=False)):
        if ours != theirs or draft.names.get(token) != target.names.get(token):
            message = f"the draft model has a different vocabulary: token {token} is {ours!r}"
            hint = "Give a smaller model of the same family"
            raise RequestError(f"{message}, not {theirs!r}", where="/draft_model", hint=hint)
    shared = min(len(draft.tokens), len(target.tokens))
    if any(draft.tokens[shared:]) or any(target.tokens[shared:]):
        message = "the draft model has a different vocabulary: {:,} tokens, not {:,}"
        counts = len(draft.tokens), len(target.tokens)
        hint = "Give a smaller model of the same family"
        raise RequestError(message.format(*counts), where="/draft_model", hint=hint)


class ModelDrafter:
    """Asks the draft model for drafts of one turn, as far as these pay.

    Args:
        model: the draft model.
        sequence: the number of the turn's sequence, which nothing else uses.
        end: the tokens that end a turn.
        prompt_length: in tokens.

    Attributes:
        budget: limits what its drafts cost.
    """

    def __init__(
        self, model: DraftModel, sequence: int, end: Collection[int], *, prompt_length: int
    ):
        self.budget = DraftBudget(ALLOWANCE)
        self._prompt_length = prompt_length
        self._model = model
        self._sequence = sequence
        self._end = frozenset(end)

    def ask(
        self, tokens: Sequence[int], matcher: Matcher | None, max_tokens: int, costs: DraftCosts
    ) -> DraftAsk | None:
        """Returns what to ask the draft model for; None if drafting does not pay.

        Args:
            tokens: all tokens of prompt and turn.
            matcher: of the turn; it is not changed.
            max_tokens: the maximum number of tokens of the draft.
            costs: of verifying it.
        """
        # Wait until the time of the target's decodes is known: if drafts cannot pay, the draft
        # model need not read the prompt at all.
        if costs.turn_seconds is None:
            return None
        affordable = self.budget.count_affordable(costs, self._model.find_token_cost(costs))
        max_tokens = min(max_tokens, self._model.options.most, affordable)
        if max_tokens < 1:
            return None
        # The reply is expected to go on for as long as it has: in that time, reading the prompt
        # has to be made good.
        generated = len(tokens) - self._prompt_length
        patience = (SOON + generated) * costs.turn_seconds
        if self._model.find_reading_seconds(self._sequence, tokens) > patience:
            return None
        fork = None if matcher is None else matcher.fork()
        return DraftAsk(self._sequence, tokens, fork, self._end, max_tokens)


def _take_forced(fork: Matcher) -> list[int]:
    """Commits the tokens that the grammar forces, and returns them."""
    forced = [*takewhile(lambda token: not fork.ends(token), fork.forced())]
    for token in forced:
        fork.commit(token)
    return forced
