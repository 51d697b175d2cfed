"""The languages in which engines take grammars, by name: a grammar in, its text out."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from grammars.ir.grammar import Grammar

Emitter: TypeAlias = Callable[[Grammar], str]
LARK = "lark"


def emit_lark(grammar: Grammar) -> str:
    """llguidance's Lark dialect, with the header by which engines know it."""
    return grammar.lark


EMITTERS: Mapping[str, Emitter] = {LARK: emit_lark}
"""A stock llama-server, for one, takes GBNF: another row here, and its name in `llama_server`."""
