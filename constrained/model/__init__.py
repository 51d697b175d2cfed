"""A model ready for calls: loading, requests, the agent loop.

Needs everything below. Start with `model`.
"""
