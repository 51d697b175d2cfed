"""The commands of the command line: a module each, with `add`, which declares it.

Needs `model`, `replay` and all below. Start with `call`; `options` has the options that commands
share, `request` makes a job and a model of them, `show` and `output` print.
"""

from constrained.commands import call, chat, check, doctor, formats, grammar, models, schema

COMMANDS = (call, chat, grammar, check, schema, formats, models, doctor)
