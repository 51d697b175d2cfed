"""The command line of `constrained`; each command is a module of `constrained.commands`."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any, NoReturn, TypeAlias

import shtab

import constrained
from constrained.commands import COMMANDS, Command
from constrained.commands.exit_codes import ExitCode, find_code
from constrained.own_packages import PROJECT, check_package
from grammars.errors import Error

GROUP = "constrained.commands"  # entry points of packages that have commands, too
ENGINES = ("llama-cpp-python", "llguidance")
COMPLETED = {
    "FILE": shtab.FILE,
    "rows": shtab.FILE,
    "TEMPLATE_OR_GGUF": shtab.FILE,
    "FOLDER": shtab.DIRECTORY,
}
"""What an argument is called in the help -> what a shell offers for it."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line; argparse prints all options in front of them.

    Args:
        module: its `add` declares the options where they are needed; "": they are declared.
        options: of any parser.
    """

    def __init__(self, *, module: str = "", **options: Any):
        super().__init__(**options)
        self._module = module

    def declare(self) -> None:
        """Declares the options; does nothing if they are."""
        module, self._module = self._module, ""
        if module:
            import_module(module).add(self)
            _complete_paths(self)

    def parse_known_args(self, *arguments: Any, **named: Any) -> Any:
        """Parses with the options of the module."""
        self.declare()
        return super().parse_known_args(*arguments, **named)

    def format_help(self) -> str:
        """The help, with the options of the module."""
        self.declare()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"constrained: error: {message} (see {self.prog} --help)\n")


class PrintVersions(argparse.Action):
    """Prints the versions and ends, before a command is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        versions = [f"constrained {constrained.__version__}"]
        versions += [f"{name} {version(name)}" for name in ENGINES]
        print(", ".join(versions))
        parser.exit()


class PrintCompletion(argparse.Action):
    """Prints the script that completes all commands, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, *_: Any
    ) -> None:
        for command in _find_parsers(parser):
            command.declare()
        print(shtab.complete(parser, values))
        parser.exit()


class UnavailableCommand:
    """A command of a package that cannot be imported; the others work.

    Args:
        name: of the command.
        reason: why it cannot be imported.
    """

    def __init__(self, name: str, reason: str):
        self._name = name
        self._reason = reason

    def add(self, subparsers: Any) -> None:
        """Adds the command, which takes any options."""
        # Without prefixes no option, `--help` included, is taken from what follows.
        parser = subparsers.add_parser(
            self._name, help="not available here", add_help=False, prefix_chars="\0"
        )
        parser.add_argument("arguments", nargs="*")
        parser.set_defaults(run=self._run)

    def _run(self, options: argparse.Namespace) -> int:
        from constrained.commands.output import print_error

        print_error(self._reason)
        return ExitCode.USAGE


AnyCommand: TypeAlias = Command | UnavailableCommand


def main(
    arguments: Sequence[str] | None = None, commands: Sequence[AnyCommand] | None = None
) -> int:
    """Runs the command line; returns one of `ExitCode`.

    Args:
        arguments: default: those of the process.
        commands: default: all, those of installed packages, too.
    """
    options = make_parser(_find_commands() if commands is None else commands).parse_args(arguments)
    try:
        return options.run(options)
    except BrokenPipeError:  # who reads has seen enough; python would try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Error, OSError) as e:
        return _report(e, options)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _report(error: Exception, options: argparse.Namespace) -> int:
    from constrained.commands.output import print_error, print_json

    if options.json:
        print_json({"error": str(error)})
    print_error(str(error))
    return find_code(error)


def _find_commands() -> list[AnyCommand]:
    # One of each name: a checkout that was installed by two names has two.
    further = {entry.name: entry for entry in entry_points(group=GROUP)}
    return [*COMMANDS, *map(_load_command, further.values())]


def _load_command(entry: EntryPoint) -> AnyCommand:
    try:
        if entry.dist is not None and entry.dist.name == PROJECT:
            check_package(import_module(entry.module.partition(".")[0]))
        return entry.load()
    except ImportError as e:
        return UnavailableCommand(entry.name, str(e))


def make_parser(commands: Sequence[AnyCommand]) -> argparse.ArgumentParser:
    """The parser of the command line with these commands."""
    parser = CommandParser(prog="constrained", description=constrained.__doc__)
    help = "print the version of this project and of what it runs on"
    parser.add_argument("--version", action=PrintVersions, nargs=0, help=help)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        match command:
            case Command(name, summary, module):
                subparsers.add_parser(name, help=summary, module=module)
            case UnavailableCommand():
                command.add(subparsers)
    help = "print the script that completes commands and options in this shell"
    shells = shtab.SUPPORTED_SHELLS
    parser.add_argument("--print-completion", action=PrintCompletion, choices=shells, help=help)
    return parser


def _find_parsers(parser: argparse.ArgumentParser) -> Iterator[CommandParser]:
    """The parsers of the commands."""
    # argparse has no public way to ask for the arguments of a parser.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from set(action.choices.values())


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Lets shells offer files and folders where an argument is one."""
    for command in _find_parsers(parser):
        _complete_paths(command)
    for action in parser._actions:
        if (name := action.metavar or action.dest) in COMPLETED:
            # shtab reads `complete`, which is no field of its own.
            setattr(action, "complete", COMPLETED[str(name)])  # noqa: B010
