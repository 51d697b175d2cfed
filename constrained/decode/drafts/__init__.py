"""Speculative decoding: tokens that are likely to come next are verified together in one decode.

Start with `speculation`; `prompt_lookup` finds drafts, `draft_budget` compares what they cost and
save.
"""
