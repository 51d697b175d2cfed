"""Conformance checks for other people's software: parsers that run in a process of their own (a
pipe), and servers with the API of Chat Completions.

Needs `grammars/suite`, `replay` and `terminal`. Start with `parser_check` and `server_check`.
"""
