"""Recorded turns and schemas, checked without a model.

Needs `grammars`. Start with `check`.
"""
