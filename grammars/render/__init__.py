"""Turn -> text: the inverse of `parse`.

Needs `spelling`, `wire`, `schema`. Start with `turn`.
"""

from grammars.render.turn import render

__all__ = ["render"]
