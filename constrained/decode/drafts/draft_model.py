"""Drafts of a small model with the same vocabulary, under the grammar of the turn.

The mask applies to drafts, too. Tokens that the grammar forces need no decode of the draft model.
"""

import time
from collections.abc import Collection, Sequence
from itertools import takewhile

import numpy as np

from constrained.deadline import Clock
from constrained.decode.drafts.draft_budget import COST, DraftBudget
from constrained.decode.drafts.draft_options import DraftOptions
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError, RequestError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.wire.format import count_common

STEP = 512  # maximum prompt tokens of one decode of the draft model
NEWEST = 0.2  # the weight of the last decode in the moving average of their times
# Of drafting a token, in decodes of the target model: with a higher cost, even an accepted token
# saves no time.
MAX_COST = 1 - COST


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
        self._known = min(self._width, len(engine.vocabulary.tokens))
        self._tokens: list[list[int]] = [[] for _ in range(engine.max_sequences)]
        self._clock = clock
        self.token_seconds = self._time_token()
        """The moving average of the time of a decode of one token, in seconds."""

    def _time_token(self) -> float:
        """Measures the time of a decode, in seconds. A first decode only allocates memory."""
        token = self._engine.vocabulary.bos or 0
        self._engine.decode([Chunk(0, [token], 0)])
        since = self._clock()
        self._engine.decode([Chunk(0, [token], 1)])
        seconds = self._clock() - since
        self._engine.release(0)
        return seconds

    def read(self, sequence: int, tokens: Sequence[int]) -> np.ndarray | None:
        """Decodes the new tokens of a sequence, up to `STEP` of them.

        Args:
            sequence: the number of the sequence.
            tokens: all tokens of prompt and turn.

        Returns:
            The logits after the last token, one for each token of the target's vocabulary; the
            caller may change them. None if the tokens do not fit into the context, the draft model
            does not have one of them, or more tokens are left than one decode takes.

        Raises:
            ModelError: the engine failed.
        """
        known = self._tokens[sequence]
        if len(tokens) >= self._engine.context_length:
            return None
        count = min(count_common(known, [*tokens]), len(tokens) - 1)
        if count < len(known):
            self._cut(sequence, count)
        rest = [*tokens[len(known) : len(known) + STEP]]
        if any(token >= self._known for token in rest):
            return None
        is_all = len(known) + len(rest) == len(tokens)
        chunk = Chunk(sequence, rest, len(known), wanted=int(is_all))
        since = self._clock()
        try:
            rows = self._engine.decode([chunk])
        except ContextError:  # the sequences share the context, and the others fill it
            self._forget_all()
            return None
        except Exception:
            known.clear()  # the engine has released the sequence
            raise
        known += rest
        if len(rest) == 1:
            self.token_seconds = _average(self.token_seconds, self._clock() - since)
        return self._fit(rows[0]) if is_all else None

    def close(self) -> None:
        """Frees the draft model. A second call does nothing."""
        self._engine.close()

    def _cut(self, sequence: int, length: int) -> None:
        known = self._tokens[sequence]
        if not self._engine.rollback(sequence, length):
            self._engine.release(sequence)
            length = 0
        del known[length:]

    def _forget_all(self) -> None:
        for sequence, known in enumerate(self._tokens):
            self._engine.release(sequence)
            known.clear()

    def _fit(self, logits: np.ndarray) -> np.ndarray:
        """Returns logits with one value for each token of the target's vocabulary."""
        if len(logits) == self._width:
            return logits
        fitted = np.full(self._width, -np.inf, np.float32)
        fitted[: self._known] = logits[: self._known]
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
    """Drafts tokens for one turn with a draft model.

    Args:
        model: the draft model.
        sequence: the number of the turn's sequence, which nothing else uses.
        end: the tokens that end a turn.

    Attributes:
        budget: limits what its drafts cost.
    """

    def __init__(self, model: DraftModel, sequence: int, end: Collection[int]):
        self.budget = DraftBudget()
        self._model = model
        self._sequence = sequence
        self._end = frozenset(end)
        self._decode_seconds: float | None = None

    def note_decode(self, seconds: float) -> None:
        """Notes how many seconds the target model takes for a decode of one token."""
        self._decode_seconds = _average(self._decode_seconds, seconds)
        if self._decode_seconds > 0:
            self.budget.token_cost = self._model.token_seconds / self._decode_seconds

    def propose(self, tokens: Sequence[int], matcher: Matcher | None, max_tokens: int) -> list[int]:
        """Returns a draft; it is empty if drafting does not pay.

        Args:
            tokens: all tokens of prompt and turn.
            matcher: of the turn; it is not changed.
            max_tokens: the maximum number of tokens of the draft.

        Raises:
            GrammarError: the matcher failed.
            ModelError: the draft model failed.
        """
        # Wait until the time of the target's decodes is known: if drafts cannot pay, the draft
        # model need not read the prompt at all.
        if self._decode_seconds is None or self.budget.token_cost >= MAX_COST:
            return []
        max_tokens = min(max_tokens, self._model.options.most, self.budget.affords)
        if max_tokens < 1:
            return []
        fork = None if matcher is None else matcher.fork()
        draft = list[int]()
        while len(draft) < max_tokens:
            logits = self._model.read(self._sequence, [*tokens, *draft])
            token = None if logits is None else self._choose(logits, fork)
            if token is None:
                break
            draft.append(token)
            if fork is not None:
                fork.commit(token)
                draft += _take_forced(fork)
        return draft[:max_tokens]

    def _choose(self, logits: np.ndarray, fork: Matcher | None) -> int | None:
        """Returns the most likely allowed token; None if it is not likely enough, or ends the
        turn."""
        only = None if fork is None else fork.apply(logits)
        token = int(logits.argmax()) if only is None else only
        if token in self._end:
            return None
        if only is None:
            probability = 1 / np.exp(logits - logits[token]).sum()
            if probability < self._model.options.least_probability:
                return None
        return token


def _take_forced(fork: Matcher) -> list[int]:
    """Commits the tokens that the grammar forces, and returns them."""
    forced = [*takewhile(lambda token: not fork.ends(token), fork.forced())]
    for token in forced:
        fork.commit(token)
    return forced


def _average(mean: float | None, newest: float) -> float:
    """Returns the exponential moving average after a new value; `mean` is None before the first."""
    return newest if mean is None else mean + NEWEST * (newest - mean)
