"""Speculative decoding: tokens that may come next, verified several in one decode.

Start with `speculation`: it asks `prompt_lookup`, then
`draft_model`. `draft_budget` has the account of what drafts cost and save.
"""
