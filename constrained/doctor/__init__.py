"""The doctor: what is wrong with a model file or its chat template, and what to do about it.

Needs `prompt`, `format_selection`, `template` and `engine`. Start with `examine`, which lists the
`checks`; `subject` is what they look at, `verdicts` what they say. `stability` walks through
conversations; `constrained/template/clauses` finds the clause to blame.
"""
