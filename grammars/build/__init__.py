"""Format x tools x policy x start state -> the grammar of one assistant turn (`grammars.ir`).

Needs `ir`, `spelling`, `wire`, `schema`. Start with `turn`: `calls` writes the calls in it, and
`values`, `tagged`, `nested` or `keyword_arguments` their arguments, as the format has them.
"""
