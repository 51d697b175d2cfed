"""Builds the grammar (`grammars.turn_grammar.ir`) of one assistant turn from format, tools, policy
and start state.

Needs `ir`, `spelling`, `wire`, `schema`. Start with `turn`. `calls` writes the calls of a turn;
`arguments` has the kinds of arguments, which parser and renderer use, too.
"""
