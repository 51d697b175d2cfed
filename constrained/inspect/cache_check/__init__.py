"""Checks the prompt cache of a running server from outside: what it reuses, and what breaks the
reuse, measured by the usage and times of some 40 requests.

Needs `doctor` and `template`. Start with `report`; `experiments` has the conversations,
`chat_client` sends them, `meters` measure how much of a prompt was cached, `blame`
finds the clause of the template.
"""
