"""The grammars of the last requests: the same tools come again with each turn of a conversation."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from grammars.build.turn import build_grammar
from grammars.turn import Policy, State, Tool
from grammars.wire.format import Format


class GrammarTexts:
    """Builds grammars, and keeps the last ones.

    Args:
        markers: token ids of the formats' markers that are one token.
        size: how many are kept.
    """

    def __init__(self, markers: Mapping[str, int], size: int):
        self._markers, self._size = markers, size
        # The schemas are told by their ids, so they are kept, too.
        self._kept: OrderedDict[Any, tuple[Sequence[Tool], str]] = OrderedDict()

    def find(self, format: Format, tools: Sequence[Tool], policy: Policy, state: State) -> str:
        """What `build_grammar` gives; an answer is not looked up, it may be any schema."""
        if policy.answer is not None:
            return build_grammar(format, tools, policy, state, self._markers)
        schemas = tuple((tool.name, id(tool.schema)) for tool in tools)
        key = format.name, schemas, policy, state
        if key not in self._kept:
            grammar = build_grammar(format, tools, policy, state, self._markers)
            self._kept[key] = tuple(tools), grammar
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]
