"""The second pass of lowering: schemas -> schemas in a normal form, still as JSON Schema.

`merging` joins the parts of an `allOf` into one schema; `conditions` and `negation` write `not`,
`if`, `dependentSchemas` and `oneOf` as alternatives; `unevaluated` replaces the keywords of that
name; `presence` takes what speaks only of which keys there are as a formula. Start with `merging`.
Needs `grammars.schema` and `lowering.keywords`.
"""
