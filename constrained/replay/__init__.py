"""Recorded turns and JSON Schemas, checked against their grammars without running a model.

Needs `grammars`, `mask`, `format_selection` and `vocabulary`. Start with `check`; what a row is
read against is in `replay_context`.
"""
