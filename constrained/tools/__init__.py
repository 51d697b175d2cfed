"""Tools: read from what users have, offered, called, reported on.

Needs `grammars`. Start with `shapes`.
"""

from constrained.tools.shapes import read_policy, read_tools

__all__ = ["read_policy", "read_tools"]
