"""A model ready for calls: loaded from a file or the Hub, asked for replies, run in an agent loop.

Needs everything below. Start with `model`, and `turn_model` for what a call is made of; `loading`
makes one.
"""
