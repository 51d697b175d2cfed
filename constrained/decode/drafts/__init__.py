"""Speculative decoding: tokens that are likely to come next are verified together in one decode.

Start with `speculation`: it tries `prompt_lookup`, then `draft_model`. `draft_budget` compares what
drafts cost and save.
"""
