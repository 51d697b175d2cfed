"""What an operator sees of requests: metrics and spans.

Implements the protocols of `server.turns.observers`; start there. `metrics` has the figures of
`/metrics`, `telemetry` the spans.
"""
