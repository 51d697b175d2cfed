"""Drafts of a small model of the same vocabulary, under the grammar of the turn.

Nothing is drafted that the mask forbids, and what the grammar forces costs no decode of the draft
model.
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

STEP = 512  # tokens of a prompt that the draft model reads at once
NEWEST = 0.2  # the weight of the last decode in the mean time of decodes
# Of a drafted token, in decodes of the model that verifies it: beyond, it costs more than the one
# decode that it saves if it is right.
MAX_COST = 1 - COST


class DraftModel:
    """A draft model: for each sequence of the model that it drafts for, one of its own. Not for two
    threads at once.

    Args:
        engine: runs it; closed with it.
        vocabulary: that of the model that it drafts for.
        options: how it is asked.
        clock: for the time of decodes.

    Raises:
        RequestError: its vocabulary is another one.
        ModelError: it does not run.
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
        """What a decode of one token takes, about."""

    def _time_token(self) -> float:
        """The seconds of a decode; the first one, which allocates memory, does not count."""
        token = self._engine.vocabulary.bos or 0
        self._engine.decode([Chunk(0, [token], 0)])
        since = self._clock()
        self._engine.decode([Chunk(0, [token], 1)])
        seconds = self._clock() - since
        self._engine.release(0)
        return seconds

    def read(self, sequence: int, tokens: Sequence[int]) -> np.ndarray | None:
        """Reads the tokens of a sequence, as far as they are new.

        Returns:
            The logits behind them, one for each token of the vocabulary, which may be changed;
            None if there are none: too many tokens, those that it does not know, or a prompt of
            which it has read only a part now.

        Raises:
            ModelError: the model failed.
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
        except ContextError:  # the sequences share it, and others have more
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
        """Frees the model; a second time does nothing."""
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
        """The logits, as many as the other model's vocabulary has tokens."""
        if len(logits) == self._width:
            return logits
        fitted = np.full(self._width, -np.inf, np.float32)
        fitted[: self._known] = logits[: self._known]
        return fitted


def check_vocabulary(draft: Vocabulary, target: Vocabulary) -> None:
    """Checks that tokens of one model mean the same to another one. Unused tokens at the end do not
    count: models of one family have more or fewer (Qwen2.5: 151,936 and 152,064).

    Raises:
        RequestError: they do not; says which token.
    """
    for token, (ours, theirs) in enumerate(zip(draft.tokens, target.tokens, strict=False)):
        if ours != theirs or draft.names.get(token) != target.names.get(token):
            message = f"the draft model has another vocabulary: token {token} is {ours!r}"
            hint = "Give a smaller model of the same family"
            raise RequestError(f"{message}, not {theirs!r}", where="/draft_model", hint=hint)
    shared = min(len(draft.tokens), len(target.tokens))
    if any(draft.tokens[shared:]) or any(target.tokens[shared:]):
        message = "the draft model has another vocabulary: {:,} tokens, not {:,}"
        counts = len(draft.tokens), len(target.tokens)
        hint = "Give a smaller model of the same family"
        raise RequestError(message.format(*counts), where="/draft_model", hint=hint)


class ModelDrafter:
    """Drafts for one turn, by a draft model.

    Args:
        model: of which nobody else uses this sequence.
        sequence: the number of the turn's sequence.
        end: the tokens that end a turn.

    Attributes:
        budget: what its drafts may still lose.
    """

    def __init__(self, model: DraftModel, sequence: int, end: Collection[int]):
        self.budget = DraftBudget()
        self._model = model
        self._sequence = sequence
        self._end = frozenset(end)
        self._decode_seconds: float | None = None

    def note_decode(self, seconds: float) -> None:
        """A decode of one token of the model that verifies takes so long."""
        self._decode_seconds = _average(self._decode_seconds, seconds)
        if self._decode_seconds > 0:
            self.budget.token_cost = self._model.token_seconds / self._decode_seconds

    def propose(self, tokens: Sequence[int], matcher: Matcher | None, max_tokens: int) -> list[int]:
        """Tokens that may come next, at most so many; none if that is not worth it.

        Args:
            tokens: of the prompt and of the turn.
            matcher: of the turn; it stays as it is.
            max_tokens: tokens of the draft.

        Raises:
            GrammarError: the matcher fails.
            ModelError: the draft model does.
        """
        # Not before it is known what a decode takes: it may be that no draft can pay, and then the
        # prompt need not be read a second time.
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
        """The likeliest token that may come; None: it is not likely enough, or ends the turn."""
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
    """The tokens that have to come next; the fork has them then."""
    forced = [*takewhile(lambda token: not fork.ends(token), fork.forced())]
    for token in forced:
        fork.commit(token)
    return forced


def _average(mean: float | None, newest: float) -> float:
    """The mean of what was measured, in which the newest counts most; None: nothing was yet."""
    return newest if mean is None else mean + NEWEST * (newest - mean)
