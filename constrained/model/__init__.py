"""A model ready for calls: loaded from a file or the Hub, asked for replies, run in an agent loop.

Needs everything below. Start with `model`; `loading` makes one, `agent` runs the functions that it
calls.
"""
