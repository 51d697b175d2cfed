"""What an operator sees of requests: why a prompt was computed again, calls that repeat.

Needs `constrained`. Start with `lost_prefix`, which compares two requests.
"""
