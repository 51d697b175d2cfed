"""Decodes one turn, token by token: mask, steer, sample, commit, write, follow.

Needs `kv`, `engine`, `vocabulary`. Start with `turn_decoder`, the loop, and `turn_part`, the
interface of its parts: `token_healing`, `reasoning_budget`, `retry`, `endless_values`,
`completion_reserve`, `drafts.speculation`. `transcript` parses the text and has the events;
`endless_content` ends a turn whose content repeats itself.
"""
