"""The KV cache and the prefix cache: what each sequence holds, snapshots in memory and on disk.

Needs `engine`. Start with `sequences`.
"""
