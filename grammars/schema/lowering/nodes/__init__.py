"""The third pass of lowering: turns a flat schema (no reference, conjunction or alternative) into
nodes.

Start with `flat`; `numbers` and `strings` lower scalars. `keys` finds the keys of an object;
`listed` lists and excludes single values; `inhabitation` removes nodes without values; `overlap`
finds nodes that exclude each other.
"""
