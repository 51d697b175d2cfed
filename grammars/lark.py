"""The grammar of a turn as Lark text for llguidance; see `grammars.build.turn`."""

from grammars.build.turn import build_grammar

__all__ = ["build_grammar"]
