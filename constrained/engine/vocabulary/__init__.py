"""The tokens of a model: their bytes and names, and how text becomes tokens.

Needs llguidance and numpy. Start with `vocabulary`; `exact_spelling` makes tokens of a text that
are nothing but that text.
"""
