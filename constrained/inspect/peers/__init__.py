"""Parsers in Python behind the pipe of `constrained suite`: one's own (a function or a class), and
those of other projects, each called as its own server calls it.

Needs `grammars/suite`. Start with `pipe`.
"""
