"""Push parser: text -> events, the same for every cut into chunks.

Needs `spelling`, `wire`, `schema`. Start with `parser`, then `calls`.
"""

from grammars.parse.parser import Parser, collect

__all__ = ["Parser", "collect"]
