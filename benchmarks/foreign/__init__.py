"""Parsers of other projects, each behind the pipe of `constrained suite`. `adapter` runs in the
virtual environment that has them, and imports nothing of ours; start with `foreign_parsers`."""
