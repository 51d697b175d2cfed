"""Parsers and servers of others, held against what is true of all: a parser behind a pipe, a server
that speaks Chat Completions.

Needs `grammars/suite`, `replay` and `terminal`. Start with `parser_check` and `server_check`.
"""
