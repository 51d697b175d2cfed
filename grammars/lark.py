"""The grammar of a turn as Lark text for llguidance; see `grammars.build.turn`."""

from grammars.build.turn import build_grammar, build_turn

__all__ = ["build_grammar", "build_turn"]
