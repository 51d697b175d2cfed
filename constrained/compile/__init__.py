"""A job and a model's facts -> a compiled turn.

Needs `prompt`, `format_selection`, `tools`, and the values of `decode` that a turn is made of.
Start with `compiled_turn`.
"""
