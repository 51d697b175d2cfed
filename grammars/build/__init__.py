"""Format x tools x policy x start state -> the grammar of one assistant turn.

Needs `spelling`, `wire`, `schema`. Start with `turn`.
"""
