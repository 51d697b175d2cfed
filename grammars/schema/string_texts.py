"""Which texts a string node allows."""

from grammars.regex.automaton import compile_regexes
from grammars.schema.nodes import String


def fits_string(text: str, node: String) -> bool:
    """Returns whether the text is a string of the node, or if the node's pattern cannot be
    parsed."""
    if len(text) < node.min_length:
        return False
    if node.max_length is not None and len(text) > node.max_length:
        return False
    automaton = None if node.pattern is None else compile_regexes((node.pattern,))
    return automaton is None or automaton.accepts(text)
