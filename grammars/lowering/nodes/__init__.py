"""The third pass of lowering: a flat schema (no reference, conjunction or alternative) -> nodes.

Start with `flat`. `keys` says which keys an object has; `listed` writes out and excludes single
values; `inhabitation` takes out what admits no value.

Needs `grammars.schema`, `grammars.regex` and, of lowering, `document`, `keywords`, `findings` and
`rewrite`.
"""
