"""XGrammar's own reading of structural tags, over a vocabulary; it runs where XGrammar is installed
(`make .venv-xgrammar/.ready`)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import xgrammar  # pyright: ignore[reportMissingImports]

from constrained.engine.vocabulary.vocabulary import Vocabulary
from tests.grammars.emit.engine_reading import EngineReading


class XGrammarEngine:
    """The matchers of XGrammar.

    Args:
        vocabulary: its tokens; special ones have their names for text, as in engines that use it.
    """

    def __init__(self, vocabulary: Vocabulary):
        tokens = [
            vocabulary.names.get(i, "").encode() or t for i, t in enumerate(vocabulary.tokens)
        ]
        self._end = vocabulary.end[0]
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=[self._end])
        self._compiler = xgrammar.GrammarCompiler(info)

    def close(self) -> None:
        """Frees nothing: it is garbage collected."""

    @contextmanager
    def reading(self, grammar: str) -> Iterator[EngineReading]:
        """A turn in this structural tag.

        Raises:
            RuntimeError: XGrammar refuses it.
        """
        compiled = self._compiler.compile_structural_tag(grammar)
        yield _XGrammarReading(xgrammar.GrammarMatcher(compiled), self._end)


class _XGrammarReading(EngineReading):
    def __init__(self, matcher: "xgrammar.GrammarMatcher", end: int):
        self._matcher = matcher
        self._end = end

    def allowed(self, tokens: Sequence[int]) -> list[int]:
        return [token for token in tokens if self._allows(token)]

    def _allows(self, token: int) -> bool:
        if self._matcher.is_terminated() or not self._matcher.accept_token(token):
            return False
        self._matcher.rollback(1)
        return True

    def commit(self, token: int) -> None:
        assert self._matcher.accept_token(token)

    def reset(self) -> None:
        self._matcher.reset()

    @property
    def may_end(self) -> bool:
        return self._allows(self._end)
