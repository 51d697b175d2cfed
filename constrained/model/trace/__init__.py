"""Traces: what decided each token of a turn, written as JSON Lines and displayed.

Needs `compile`, `decode`, `grammars/parse`. Start with `turn_trace`, the record; `places` says
which part of the turn each token is in, `page` and `text_view` show it. The tokens are noted while
the turn is decoded (`constrained/decode/token_trace.py`).
"""
