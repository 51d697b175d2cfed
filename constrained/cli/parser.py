"""The command line of `constrained`; each command is a module of `constrained.cli.commands`."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from copy import copy
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any, NoReturn, TypeAlias

import shtab

import constrained
from constrained.cli.commands import COMMANDS, Command
from constrained.cli.configuration import add_options, describe, list_commands, parse
from constrained.cli.declared import complete, rank_group
from constrained.cli.terminal.exit_codes import ExitCode, find_code
from constrained.cli.terminal.output import (
    print_error,
    print_json,
    print_table,
    set_colour,
    show_warnings,
)
from constrained.errors import RequestError
from constrained.errors.own_packages import PROJECT, check_package
from grammars.errors import Error

INTERRUPTED = "constrained: interrupted"
GROUP = "constrained.commands"  # entry points of packages that have commands, too
ENGINES = ("llama-cpp-python", "llguidance")
KINDS = {"int": "a whole number", "float": "a number", "read_max_tokens": "a whole number"}
"""argparse's names of types, and what users call them."""
INVALID_CHOICE = re.compile(r"(.+): invalid choice: '(.*)' \(choose from (.*)\)")
COMPLETED = {
    "FILE": shtab.FILE,
    "rows": shtab.FILE,
    "TEMPLATE_OR_GGUF": shtab.FILE,
    "FOLDER": shtab.DIRECTORY,
}
"""Names of arguments in the help, and what a shell completes them with."""


class UsageError(RequestError):
    """The command line is not valid; the hint is the command that shows the help."""

    def __str__(self) -> str:
        return f"{self.message} (see {self.hint})"


class CommandParser(argparse.ArgumentParser):
    """A parser that raises its errors; argparse would print all options first, and exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(_reword(message), hint=f"{self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        """Prints the help for every day; --help-all prints the whole."""
        short = copy(self)
        short._action_groups = [one for one in self._action_groups if not rank_group(one.title)]
        self._print_message(short.format_help(), file or sys.stdout)


class PrintWholeHelp(argparse.Action):
    """Prints the help with all options, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(parser.format_help(), end="")
        parser.exit()


def _reword(message: str) -> str:
    """Rewords a message of argparse: which option is wrong, and which similar one may be meant."""
    message = message.removeprefix("argument ")
    for kind, name in KINDS.items():
        message = message.replace(f"invalid {kind} value: ", f"not {name}: ")
    found = INVALID_CHOICE.fullmatch(message)
    if found is None:
        return message
    place, given, known = found.groups()
    place = place.strip("[]")  # a subcommand that may be left out
    names = re.findall(r"[^\s,']+", known)
    close = get_close_matches(given, names, n=1)
    if close:
        return f"{place}: there is no {given!r}, did you mean {close[0]}?"
    return f"{place}: there is no {given!r}; choose from {', '.join(names)}"


class PrintVersions(argparse.Action):
    """Prints the versions and ends, before a command is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        versions = [f"constrained {constrained.__version__}"]
        versions += [f"{name} {version(name)}" for name in ENGINES]
        print(", ".join(versions))
        parser.exit()


class UnavailableCommand:
    """A command of a package that cannot be imported, and why; the others work."""

    def __init__(self, name: str, reason: str):
        self._name = name
        self._reason = reason

    def add(self, subparsers: Any) -> None:
        """Adds the command, which takes any options."""
        # Without prefixes, no option of the command, such as `--help`, is read here.
        parser = subparsers.add_parser(
            self._name, help="not available here", add_help=False, prefix_chars="\0"
        )
        parser.add_argument("arguments", nargs="*", default=[])
        parser.set_defaults(run=self._run)

    def _run(self, options: argparse.Namespace) -> int:
        print_error(self._reason)
        return ExitCode.USAGE


AnyCommand: TypeAlias = Command | UnavailableCommand


def main(
    arguments: Sequence[str] | None = None,
    commands: Sequence[AnyCommand] | None = None,
    *,
    start: Callable[[], None] = lambda: None,
) -> int:
    """Runs the command line, by default with the arguments of the process and all commands, those
    of installed packages, too; returns one of `ExitCode`. `start` is called after the options are
    read, before the command begins."""
    try:
        try:
            return _run(arguments, commands, start)
        finally:
            sys.stdout.flush()  # here, so that a BrokenPipeError is caught below
    except BrokenPipeError:  # the reader has closed the pipe; Python would try to write the rest
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return ExitCode.DONE
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return ExitCode.INTERRUPTED


def _run(
    arguments: Sequence[str] | None,
    commands: Sequence[AnyCommand] | None,
    start: Callable[[], None],
) -> int:
    options = argparse.Namespace(json=False)
    try:
        parser = make_parser(_find_commands() if commands is None else commands)
        if arguments is None:
            arguments = sys.argv[1:]
        if not arguments:
            parser.print_help(sys.stderr)
            return ExitCode.USAGE
        options = parse(parser, arguments)
        set_colour(getattr(options, "color", "auto"))
        show_warnings()
        if "show_config" in options:
            return _show_config(options)
        start()
        return options.run(options)
    except BrokenPipeError:
        raise
    except (Error, OSError) as e:
        if options.json:
            print_json({"error": str(e)})
        print_error(str(e))
        return find_code(e)


def _find_commands() -> list[AnyCommand]:
    # Each name once: a checkout that was installed under two names has each command twice.
    further = {entry.name: entry for entry in entry_points(group=GROUP)}
    return [*COMMANDS, *map(_load_command, further.values())]


def _load_command(entry: EntryPoint) -> AnyCommand:
    try:
        if entry.dist is not None and entry.dist.name == PROJECT:
            check_package(import_module(entry.module.partition(".")[0]))
        command: Command = entry.load()
        import_module(command.module)
        return command
    except ImportError as e:
        return UnavailableCommand(entry.name, str(e))


def make_parser(commands: Sequence[AnyCommand]) -> argparse.ArgumentParser:
    """Makes the parser of the command line with these commands."""
    parser = CommandParser(prog="constrained", description=constrained.__doc__)
    help = "print the version of this project and of what it runs on"
    parser.add_argument("--version", action=PrintVersions, nargs=0, help=help)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        match command:
            case Command(name, summary, module):
                import_module(module).add(subparsers.add_parser(name, help=summary))
            case UnavailableCommand():
                command.add(subparsers)
    help = "print a script that completes commands and options in this shell"
    shtab.add_argument_to(parser, "--print-completion", help=help)
    add_options(parser)
    for each in (parser, *(command.parser for command in list_commands(parser))):
        _complete_paths(each)
        _divide_help(each)
    return parser


def _divide_help(parser: argparse.ArgumentParser) -> None:
    """Adds --help-all to a command with options that are not for every day."""
    if not any(rank_group(group.title) for group in parser._action_groups):
        return
    parser._action_groups.sort(key=lambda group: rank_group(group.title))
    names = [str(action.metavar or action.dest) for action in parser._get_positional_actions()]
    parser.usage = " ".join(["%(prog)s [OPTIONS]", *names])
    help = "show all options, including the advanced ones"
    parser.add_argument("--help-all", action=PrintWholeHelp, nargs=0, help=help)


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Lets shells complete the arguments that are files or folders."""
    for action in parser._actions:
        if (name := action.metavar or action.dest) in COMPLETED:
            setattr(action, "complete", COMPLETED[str(name)])  # noqa: B010  no field of its own


def _show_config(options: argparse.Namespace) -> int:
    complete(options)
    rows = describe(options)
    if options.json:
        print_json(rows)
    else:
        print_table(rows)
    return ExitCode.DONE
