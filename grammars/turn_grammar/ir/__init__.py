"""The intermediate representation of a grammar: a typed value, and what interprets it.

`nodes` has the expressions, `grammar` builds the rules, `printer` writes them as Lark for
llguidance, `chart` reads a text with them as llguidance does, and `completion` finds the shortest
text that ends it. Needs `regex` and `schema.bits`. Start with `nodes`.
"""
