"""Decodes one turn, token by token: mask, steer, sample, commit, write, follow.

Needs `kv`, `engine`, `vocabulary`. Start with `turn_decoder`, the loop; `turn_part`, the interface
of the rules beside the grammar; and `parts.table`, which lists them all. `transcript` parses the
text and has the events.
"""
