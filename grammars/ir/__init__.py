"""The intermediate representation of a grammar: one typed value between a format and its readers.

`nodes` has the expressions, `grammar` the rules under way, `printer` writes them as Lark for
llguidance, `chart` reads a text with them as llguidance would, and `completion` finds the shortest
text that ends it. Needs `regex` and `schema.bits`. Start with `nodes`.
"""
