"""How values are written: in the style of a template, between tags, by keyword; and read back.

Needs `wire`, `schema` and `regex`. Start with `styles` and `reading`.
"""
