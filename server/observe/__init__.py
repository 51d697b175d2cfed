"""What an operator sees of requests: metrics, spans, traces, and why a prompt was computed again.

Implements the protocols of `server.turns.observers`; start there. `metrics` has the figures of
`/metrics`, `telemetry` the spans; `prefix_watch` notices that a prompt is computed again, and
`lost_prefix` says why.
"""
