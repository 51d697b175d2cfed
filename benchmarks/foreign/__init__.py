"""Parsers of other projects, each after the pipe of `constrained suite`. `adapter` runs in the
virtual environment that has them, and imports nothing of ours; start with `foreign_parsers`."""
