"""The second pass of lowering: brings schemas into a normal form, still as JSON Schema.

`flattening` follows `$ref` and merges the parts of an `allOf` into one schema, two at a time
(`merging`); `unevaluated` replaces the keywords of that name; `conditions` and `negation` write
`not`, `if`, `dependentSchemas` and `oneOf` as alternatives; `presence` writes keywords about the
presence of keys as a formula. Start with `flattening`.
"""
