"""A JSON Schema as the grammar sees it: a small closed set of nodes, and what they mean.

`nodes`: the nodes, the report of a lowered schema, its validator. `members` and `counted`: which
members of an object and items of a list may come next; they rest on `presence` (which keys there
have to be) and `bits` (conditions in llguidance's parametric rules). `numbers`: values as a schema
means them. `extent`: how long a shortest value may be. `subschemas`: JSON pointers, and where
schemas stand in a schema.

Needs `grammars.regex`. Start with `nodes`.
"""
