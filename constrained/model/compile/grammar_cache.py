"""Grammars of turns, with what completes them; the last ones are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from constrained.prompt.cache_scope import COMMON
from grammars.limits.byte_cache import MIB, ByteCache, CacheSize, measure_bytes
from grammars.turn import Policy, State, Tool
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format

COMPLETERS = 32 * MIB
COMPLETER_BYTES, CHARACTER_BYTES = 20_000, 60  # of a completer and its grammar; of its text


@dataclass(frozen=True)
class GrammarSource:
    """All that the grammar of a turn depends on, except for the vocabulary.

    Args:
        format: the wire format of the turn.
        tools: those that may be called.
        policy: which calls, reasoning and answer are allowed.
        state: where the prompt leaves the turn.
        text_ends: texts of the template that end the turn.
        scope: the cache scope: only requests of this scope share the grammar.
    """

    format: Format
    tools: tuple[Tool, ...]
    policy: Policy
    state: State
    text_ends: tuple[str, ...] = ()
    scope: str = COMMON

    def build(self, markers: Mapping[str, int]) -> Grammar:
        """Builds the grammar.

        Args:
            markers: the token ids of the markers that are one token, by their text.

        Raises:
            SchemaError, ToolError: as for `build_turn`.
        """
        return build_turn(
            self.format,
            self.tools,
            policy=self.policy,
            state=self.state,
            markers=markers,
            text_ends=self.text_ends,
        )


@dataclass(frozen=True)
class _KeptGrammar:
    """A completer with its grammar, and the tools that it was built for.

    The cache key has the `id` of each schema, so the schemas must stay alive: Python would give the
    same `id` to another one. Their size counts, since the cache may be their only owner.
    """

    tools: Sequence[Tool]
    tools_bytes: int
    completer: Completer

    def measure(self) -> int:
        """Returns the approximate bytes of all entries."""
        text = CHARACTER_BYTES * len(self.completer.grammar.lark)
        return self.tools_bytes + COMPLETER_BYTES + text + self.completer.measure()


class GrammarCache:
    """Builds grammars, and keeps the last ones: each turn of a conversation has the same tools.

    Args:
        markers: the token ids of the formats' markers that are one token.
    """

    def __init__(self, markers: Mapping[str, int]):
        self._markers = markers
        self._kept: ByteCache[_KeptGrammar] = ByteCache(COMPLETERS, _KeptGrammar.measure)

    @property
    def size(self) -> CacheSize:
        """The size of the cache."""
        return self._kept.size

    def find(self, source: GrammarSource) -> Completer:
        """Returns the completer of such turns, which holds their grammar.

        Grammars of typed answers are not kept: each request may have another schema.

        Raises:
            SchemaError, ToolError: the grammar cannot be built.
        """
        if source.policy.answer is not None:
            return Completer(source.build(self._markers))
        schemas = tuple((tool.name, id(tool.schema)) for tool in source.tools)
        source_key = source.format.name, source.policy, source.state, source.text_ends
        key = (source.scope, schemas, source_key)
        kept = self._kept.find(key, None)
        if kept is not None:
            return kept.completer
        completer = Completer(source.build(self._markers))
        kept = _KeptGrammar(source.tools, measure_bytes(source.tools), completer)
        self._kept.keep(key, kept)
        return completer
