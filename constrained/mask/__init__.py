"""Token masks: grammar x vocabulary -> which tokens may come next.

Start with `matcher`; `trial` compiles the grammars of clients in another process first.
"""
