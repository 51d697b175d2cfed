"""Lowering: JSON Schema documents -> the nodes from which grammars are built, and a report.

Start with `lower.lower`. It has three passes:

1. `document`: reads the whole document. It repairs mistakes whose meaning is clear, turns
references into JSON pointers into the document, and refuses what is not JSON Schema.
2. `rewrite`: brings one schema into a normal form without `$ref`, `allOf`, `not`, `if` and the
like: one flat schema, or alternatives.
3. `nodes`: turns a flat schema into nodes, type by type.

Passes 2 and 3 alternate on the way down: each subschema is rewritten, then lowered. Keywords that
the mask cannot enforce are reported as checked (`findings`). `tool_options` changes a lowered
schema by the options of a tool; `checked` finds the arguments that need the validator.
"""
