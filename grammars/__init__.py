"""Wire formats of tool calls: grammar, parser and renderer. Text in, text out."""

PROJECT = "constrained-calls"
"""The name to install it by. `constrained` and `server` know by it that this is the `grammars`
that they were made with: the name is a general one, and a folder of the user's may have it."""
