"""Speculative decoding: tokens that are likely to come next are verified together in one decode.

Start with `prompt_lookup`, which finds drafts; `decode_costs` compares what they cost and save.
"""
