"""Tools: JSON, functions and classes read as tools, offered to a model, reported on, executed.

Needs `grammars`, `limits` and pydantic. Start with `shapes`; `functions`, `signatures`,
`python_types` and `docstrings` read Python, `drawn_values` tries what they have read, `offer` drops
the tools of a request that cannot be enforced, `execution` runs calls.
"""

from constrained.prompt.tools.shapes import read_policy, read_tools

__all__ = ["read_policy", "read_tools"]
