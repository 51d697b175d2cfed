"""The KV cache: what each sequence holds, and snapshots of it in memory and on disk.

Needs `engine`. Start with `sequences`.
"""
