"""The grammar languages of engines, by name; an emitter writes a grammar as text."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from grammars.turn_grammar.ir.grammar import Grammar

Emitter: TypeAlias = Callable[[Grammar], str]
LARK = "lark"


def emit_lark(grammar: Grammar) -> str:
    """Writes llguidance's Lark dialect, with the header by which engines recognise it."""
    return grammar.lark


EMITTERS: Mapping[str, Emitter] = {LARK: emit_lark}
"""By name. A stock llama-server takes GBNF, for example: another row here, and its name in
`llama_server`."""
