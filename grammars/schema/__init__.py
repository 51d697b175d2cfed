"""A JSON Schema as the grammar uses it: a small closed set of nodes, and their meaning.

`nodes`: the nodes, the report of a lowered schema, and its validator. `members` and `counted`:
which members of an object and items of a list may come next; they use `presence` (which keys an
object must have) and `bits` (conditions in llguidance's parametric rules). `numbers`: values as a
schema means them. `extent`: the length of shortest values. `corner_values`: a few values to try.
`subschemas`: which keywords contain schemas. Start with `nodes`.
"""
