"""What a model's tokens stand for, and how text becomes tokens.

Needs llguidance. Start with `vocabulary`.
"""
