"""JSON Schema documents -> nodes: what a mask can hold becomes nodes, the rest is reported.

Needs `schema` and `regex`. Start with `lower`.
"""
