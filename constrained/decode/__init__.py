"""Decodes one turn, token by token: mask, steer, sample, commit, write, follow.

Needs `kv`, `engine`, `vocabulary`. Start with `turn_decoder`, the loop, and `turn_part`, the
interface of its parts: `token_healing`, `reasoning_budget`, `retry`, `endless`,
`completion_reserve`, `drafts.speculation`. `transcript` parses the text and has the events;
`foreign_calls` delivers calls in other envelopes than the model's own.
"""
