"""The second pass of lowering: schemas -> schemas in a normal form, still as JSON Schema.

`flattening` follows `$ref` and makes one schema of the parts of an `allOf`, two at a time in
`merging`; `unevaluated` replaces the keywords of that name; `conditions` and `negation` write
`not`, `if`, `dependentSchemas` and `oneOf` as alternatives; `presence` takes what speaks only of
which keys there are as a formula. Start with `flattening`.

Needs `grammars.schema`, `grammars.regex` and, of lowering, `keywords`, `findings` and `document`.
"""
