"""The command line of `constrained`; each command is a module of `constrained.commands`."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from constrained.commands import COMMANDS
from constrained.commands.output import print_error, print_json
from grammars.errors import Error

GROUP = "constrained.commands"  # entry points of packages that have commands, too


def main(arguments: Sequence[str] | None = None, commands: Sequence[Any] | None = None) -> int:
    """Runs the command line; 0 if all went well, 2 on an error that the user can mend.

    Args:
        arguments: default: those of the process.
        commands: modules with `add`; default: all, those of installed packages, too.
    """
    options = _parser(_find_commands() if commands is None else commands).parse_args(arguments)
    try:
        return options.run(options)
    except BrokenPipeError:  # who reads has seen enough; python would try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Error, OSError) as e:
        return _report(str(e), options)
    except KeyboardInterrupt:
        return 130


def _report(message: str, options: argparse.Namespace) -> int:
    if options.json:
        print_json({"error": message})
    print_error(message)
    return 2


def _find_commands() -> list[Any]:
    return [*COMMANDS, *(further.load() for further in entry_points(group=GROUP))]


def _parser(commands: Sequence[Any]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="constrained", description=__doc__)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        command.add(subparsers)
    return parser
