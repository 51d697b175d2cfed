"""Compiles a job to a turn: prompt tokens, grammar, matcher and parser.

Needs `prompt`, `format_selection`, `tools`, and the values of `decode` that a turn is made of.
Start with `compiler`, which goes through all steps, and `compiled_turn`, which is their result.
"""
