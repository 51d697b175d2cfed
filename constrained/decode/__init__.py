"""One turn under way: mask, steer, sample, commit, write, follow, token by token.

Needs `kv`, `engine`, `vocabulary`. Start with `turn_decoder`, the loop, and `turn_part`, the
interface of its parts: `token_healing`, `reasoning_budget`, `retry`, `endless_values`,
`completion_reserve`, `drafts.speculation`. What is read of the turn and sent is in `transcript`.
"""
