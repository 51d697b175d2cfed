"""Traces: what decided each token of a turn.

Needs `compile`, `decode`, `grammars/parse`. Start with `turn_trace`, the record; `places` says
which part of the turn each token is in. The tokens are noted while
the turn is decoded (`constrained/decode/token_trace.py`).
"""
