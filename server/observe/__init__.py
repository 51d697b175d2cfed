"""What an operator sees of requests: a record of each reply, spans, traces; why a prompt was
computed again, and calls that repeat.

Needs `constrained`. Start with `request_record`, of which log, spans and metrics are made; then
`prefix_watch`, which notices that a prompt is computed again, and `lost_prefix`, which says why.
"""
