"""Continuous batching, and the threads that compile and decode.

Needs `decode`, `kv`. Start with `Schedule.step` in `scheduler`: choose chunks, decode, advance.
"""
