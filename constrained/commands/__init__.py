"""The commands: a module each, with `add`, which declares its options and what runs it."""

from constrained.commands import call, chat, check, formats, grammar, schema

COMMANDS = (call, chat, grammar, check, schema, formats)
