"""One turn under way: mask, sample, commit, follow, token by token.

Needs `kv`, `engine`, `vocabulary`. Start with `turn_decoder`.
"""
