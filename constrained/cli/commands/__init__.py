"""The commands of the command line: a module each, with `add`, which declares its options.

Needs `model`, `replay` and all below. Start with `call`; `options` has the options that commands
share, `request` makes a job and a model of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command. `add` of the named module declares its options; the module imports slow modules
    only when the command runs."""

    name: str
    summary: str
    module: str


def _command(name: str, summary: str) -> Command:
    return Command(name, summary, f"{__name__}.{name}")


COMMANDS = (
    _command("call", "answer one message, with tools"),
    _command("chat", "talk with a model, line by line"),
    _command("grammar", "print the grammar that masks a request's tokens"),
    _command("check", "replay recorded turns through grammar and parser"),
    _command("suite", "test any parser or server of tool calls"),
    _command("schema", "report which schema keywords are enforced, and which instances pass"),
    _command("formats", "list the call formats, or detect that of a template"),
    _command("doctor", "find what is wrong with a model or a template"),
    _command("eval", "find which model file calls tools, and whether syntax or wits fail"),
    _command("models", "list, download and remove models"),
    _command("bench", "measure how fast a model is on this machine"),
)
