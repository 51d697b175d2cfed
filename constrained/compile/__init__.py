"""A job and a model's facts -> a compiled turn.

Needs `prompt`, `format_selection`, `tools`. Start with `compiler`.
"""
