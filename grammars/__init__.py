"""Wire formats of tool calls: grammar, parser and renderer. Text in, text out."""

PROJECT = "constrained"
"""Tells `constrained` that this is the `grammars` it was made with."""
