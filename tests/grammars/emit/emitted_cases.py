"""Requests whose grammars are emitted and judged by the engine that they are for."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache

from benchmarks.inputs.tool_sets import BFCL, read_rows
from constrained.prompt.tools.shapes import read_tools
from grammars.emit.emitter import emit
from grammars.errors import CannotEmitError
from grammars.turn import Policy, State, Tool
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format
from tests.agreement.matching import Masked
from tests.grammars.emit.emitted_texts import (
    Agreement,
    EngineVocabulary,
    compare,
    judge,
)
from tests.grammars.emit.engine_reading import EngineReading

Open = Callable[[str], AbstractContextManager[EngineReading]]


@dataclass(frozen=True)
class EmittedCase:
    """A request.

    Args:
        texts: turns that are judged, beside those that are drawn.
    """

    format: Format
    tools: Sequence[Tool]
    policy: Policy = field(default_factory=Policy)
    state: State = field(default_factory=State)
    texts: Sequence[str] = ()

    def judge(
        self, language: str, reading: Open, known: EngineVocabulary, draw: random.Random, walks: int
    ) -> Agreement | None:
        """What both sides say; None where the grammar has U+0000, which GBNF cannot say."""
        real = known.vocabulary, known.tokenizer
        ours = Masked(self.format, self.tools, self.policy, self.state, real=real)
        grammar = build_turn(self.format, self.tools, self.policy, self.state, ours.ids)
        try:
            emitted = emit(grammar, language)
        except CannotEmitError as error:
            if "U+0000" in error.message:
                return None
            raise
        with reading(emitted) as theirs:
            agreement = compare(ours, theirs, known.drawn, draw, walks)
            shortest = Completer(grammar).complete("")
            if isinstance(shortest, str):
                judge(agreement, "shortest", ours, theirs, shortest)
            for text in self.texts:
                judge(agreement, "given", ours, theirs, text)
        return agreement


@lru_cache
def read_small_sets() -> list[list[Tool]]:
    """The sets of one or two tools in the sample of the Berkeley Function-Calling Leaderboard."""
    rows = [row["tools"] for row in read_rows([BFCL])]
    return [read_tools(tools) for tools in rows if len(tools) <= 2]
