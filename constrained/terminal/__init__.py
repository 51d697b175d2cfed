"""What commands read from stdin and files, and what they print; their exit codes.

Needs `tools`, `grammars`. Start with `output`; `show` prints a turn as it is generated.
"""
