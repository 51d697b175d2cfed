"""The KV cache and the prefix cache: tokens of sequences, snapshots in memory and on disk.

Needs `engine`. Start with `sequences`.
"""
