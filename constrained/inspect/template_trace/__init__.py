"""How a chat template rendered a prompt: which place of it wrote what, and why two prompts differ.

Start with `tracing`; `clauses` names the place that makes a difference.
"""
