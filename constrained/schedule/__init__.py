"""Continuous batching: which turn is on which sequence, step by step, and the threads for that.

Needs `decode`, `kv`. Start with `Schedule.step` in `scheduler`: choose chunks, decode, advance.
"""
