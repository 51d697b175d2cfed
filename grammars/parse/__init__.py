"""Push parser: text -> events. The events do not depend on how the text is cut into chunks.

Needs `turn_grammar.arguments`, `spelling`, `wire`, `schema`. Start with `parser`, then `calls`.
"""

from grammars.parse.parser import Parser, collect, parse

__all__ = ["Parser", "collect", "parse"]
