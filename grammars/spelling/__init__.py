"""How formats write values in the style of a template, and how they are read back from text that
arrives in pieces.

Needs `wire`, `schema` and `regex`. Start with `styles` and `value_reader`.
"""
