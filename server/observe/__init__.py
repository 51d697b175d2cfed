"""What an operator sees of requests: a record of each reply, spans, traces, why a prompt was
computed again, and repeated calls.

Needs `constrained`. Start with `request_record`, the source of log lines, spans and metrics; then
`prefix_watch`, which notices that a prompt is computed again, and `lost_prefix`, which says why.
"""
