"""What a running server reads from its cache, and what makes it read less: a check from outside, by
the usage and the times of some 40 requests.

Needs `doctor` and `template`. Start with `report`; `experiments` are the conversations that are
sent, `chat_client` sends them by `timed_http`, `meters` tell how much of a prompt was cached,
`blame` finds the clause of the template.
"""
