"""The wire format of a model, and a template that teaches it where the model's own does not.

Needs `template`, `messages` and `grammars`. Start with `selection.select_format`; `template_facts`
has what probes show of a template; `generic` has the instructions, and writes calls and results of
the history as plain text; `message_forms` serves templates that want them in other fields or roles
than OpenAI's.
"""
