"""Checks recorded turns and JSON Schemas against their grammars without running a model.

Needs `grammars`, `mask`, `format_selection` and `vocabulary`. Start with `check`; `replay_context`
reads the format, template and vocabulary of a row.
"""
