"""Lowering: JSON Schema documents -> nodes that a grammar can be built of, and a report.

Start with `lower.lower`. It goes in three passes:

1. `document`: the whole document. What is plainly meant is repaired, references become JSON
   pointers into the document, and what is no JSON Schema is refused.
2. `rewrite`: one schema into a normal form without `$ref`, `allOf`, `not`, `if` and the like:
   either one flat schema or alternatives.
3. `nodes`: a flat schema into nodes, type by type.

The passes 2 and 3 alternate on the way down: each subschema is rewritten, then lowered. What the
mask cannot enforce is reported as checked (`findings`). `tool_options` changes a lowered schema as
a tool asks for; `checked` says which arguments need the validator.

Needs `grammars.schema`, `grammars.regex` and `grammars.errors`.
"""
