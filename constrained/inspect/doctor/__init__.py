"""The doctor: finds errors of a model file or its chat template, and says what to do about them.

Needs `prompt`, `format_selection`, `template` and `engine`. Start with `examine`, which lists the
`checks`; `subject` is their input, `verdicts` their result. `stability` goes through conversations.
"""
