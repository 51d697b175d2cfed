"""Input, output and exit codes of commands.

Needs `tools`, `grammars`. Start with `output`; `show` prints a turn as it is generated.
"""
