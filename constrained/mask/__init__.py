"""Token masks: grammar x vocabulary -> which tokens may come next.

Needs `vocabulary` and `isolation`. Start with `matcher`; `trial` compiles the grammars of
clients in another process first.
"""
