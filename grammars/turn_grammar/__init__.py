"""Builds the grammar (`grammars.turn_grammar.ir`) of one assistant turn from format, tools, policy
and start state.

Needs `ir`, `spelling`, `wire`, `schema`. Start with `turn`. `calls` writes the calls of a turn;
`values`, `tagged`, `nested` or `keyword_arguments` write their arguments, depending on the format.
"""
