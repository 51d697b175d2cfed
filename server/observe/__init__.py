"""What an operator sees of requests: metrics, spans and traces.

Implements the protocols of `server.turns.observers`; start there. `metrics` has the figures of
`/metrics`, `telemetry` the spans, `trace_file` the traces.
"""
