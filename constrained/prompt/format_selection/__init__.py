"""Selects the wire format of a model, and makes a template that teaches it if its own does not.

Needs `template`, `messages` and `grammars`. Start with `selection.select_format`; `template_facts`
has the results of probing a template; `generic` has the instructions, and writes calls and results
of the history as plain text.
"""
