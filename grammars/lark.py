"""The grammar of a turn as Lark text for llguidance; see `grammars.turn_grammar.turn`."""

from grammars.turn_grammar.turn import build_grammar, build_turn

__all__ = ["build_grammar", "build_turn"]
