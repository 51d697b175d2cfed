"""Reads options from a configuration file, constrained.toml, and notes the source of each value.

The options are taken from the parser of the command line, so they are not declared twice. The
command line has precedence over the environment, and the environment over the file.
"""

import argparse
import json
import os
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from constrained.cli.terminal.output import COLOURS
from constrained.engine.files.input_files import read_input
from constrained.errors import RequestError
from constrained.remote.address import is_address

NAME = "constrained.toml"
COMMON = "default"
"""The table of options for all commands that have them; they may also come before all tables."""
COMMAND_LINE, DEFAULT = "command line", "default"
SECRET = ("TOKEN", "KEY")
"""The help's names of arguments whose values are not shown."""
MODEL = frozenset({"model", "hf_repo", "hf_file"})
"""Options that together name one model: if one source names it, others do not add to it."""
RISKY = frozenset(
    "host allowed_hosts cors_origin log_prompts share_cache mcp mcp_config yes package".split()
)
"""Options that open a server to others, that send or save conversations, or that run programs. A
file in the current folder, which may come from someone else, cannot set them."""
NOT_IN_FILES = ("help", "help_all", "config", "show_config", "json")


def find_rivals(names: Collection[str]) -> set[str]:
    """Returns the other options of the model, if these name one."""
    if {"model", "hf_repo"}.isdisjoint(names):
        return set()
    return set(MODEL.difference(names))


LARGEST = 10**9
"""The largest number of an option. Timers of Python cannot wait for many more seconds."""


@dataclass(frozen=True)
class AtLeast:
    """A type for argparse: whole numbers, or all, from a minimum on, up to `LARGEST`."""

    minimum: int
    kind: type[int] | type[float] = int

    @property
    def __name__(self) -> str:  # argparse's message about text that is no number has it
        return self.kind.__name__

    def __call__(self, text: str) -> float:
        """Reads a number; raises ArgumentTypeError if it is too small, too large or NaN."""
        number = self.kind(text)
        if number > LARGEST:
            raise argparse.ArgumentTypeError(f"must be {LARGEST:,} or less, is {text}")
        if not number >= self.minimum:
            raise argparse.ArgumentTypeError(f"must be {self.minimum} or more, is {text}")
        return number


@dataclass(frozen=True)
class Config:
    """A configuration file; `is_of_folder`: it was found in the current folder, not given by the
    user."""

    path: Path
    tables: Mapping[str, Any]
    is_of_folder: bool = False


@dataclass(frozen=True)
class ParsedCommand:
    """A command of the parser, the last of a chain such as `models`, `pull`, with the names and the
    parsers of the chain."""

    names: tuple[str, ...] = ()
    parsers: tuple[argparse.ArgumentParser, ...] = ()

    @property
    def parser(self) -> argparse.ArgumentParser:
        """The parser of the command itself."""
        return self.parsers[-1]

    def list_actions(self) -> Iterator[argparse.Action]:
        """Yields the options and arguments of the chain; those of the command itself come first."""
        for parser in reversed(self.parsers):
            for action in parser._actions:
                if not isinstance(action, argparse._SubParsersAction):
                    yield action

    def list_rivals(self, names: Collection[str]) -> set[str]:
        """Returns the options that these exclude; a source of lower precedence may not add them."""
        rivals = find_rivals(names)
        for parser in self.parsers:
            for group in parser._mutually_exclusive_groups:
                members = {action.dest for action in group._group_actions}
                if not members.isdisjoint(names):
                    rivals |= members.difference(names)
        return rivals


@dataclass(frozen=True)
class FileValue:
    """A value of an option in a file, with the file and its table."""

    value: Any
    place: str


@dataclass(frozen=True)
class Parsed:
    """The sources of the values of options.

    Attributes:
        sources: name in the namespace -> COMMAND_LINE, a variable, or a table of a file; options
        that are not in it have their default.
        of_file: the names of values from the file that the environment may override.
    """

    command: ParsedCommand
    sources: dict[str, str] = field(default_factory=dict[str, str])
    of_file: set[str] = field(default_factory=set[str])


def list_commands(
    parser: argparse.ArgumentParser, above: ParsedCommand = ParsedCommand()
) -> Iterator[ParsedCommand]:
    """Yields all commands of a parser, including nested ones; `above` is the chain before it."""
    # argparse has no public way to list the arguments of a parser.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                below = ParsedCommand((*above.names, name), (*above.parsers, command))
                yield below
                yield from list_commands(command, below)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of all commands, on the parser and on each of them."""
    for each in (parser, *(command.parser for command in list_commands(parser))):
        if "-" not in each.prefix_chars:  # it has no options
            continue
        group = each.add_argument_group("common options")
        help = "colours in the output; default: auto, at a terminal (NO_COLOR, FORCE_COLOR)"
        group.add_argument("--color", choices=COLOURS, default=argparse.SUPPRESS, help=help)
        help = f"read options from this file; default: {NAME} in this folder, else the user's"
        group.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=help)
        if each is parser:  # the rest is only for commands
            continue
        group.add_argument(
            "--show-config",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print each option with its value and its source, then exit",
        )
        if "--json" not in each._option_string_actions:
            help = "with --show-config: print JSON"
            group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=help)


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line; options that it does not have come from the configuration file, or
    have their default. The namespace has a `Parsed` as `parsed`. Changes the parser, which is used
    once.

    Raises:
        RequestError: the file cannot be read, or has an unknown option or a wrong value.
    """
    defaults = _suppress_defaults(parser)
    needed = {action for action in defaults if action.required}
    for action in needed:  # the file may have it
        action.required = False
    options, unknown = parser.parse_known_args(words)
    command: ParsedCommand = options.command
    _refuse_unknown(unknown, command, options)
    for group in command.parser._mutually_exclusive_groups:  # the command line has one of them
        group.required = False
    given = vars(options).keys() & {action.dest for action in command.list_actions()}
    values: dict[str, FileValue] = {}
    config = find_config(getattr(options, "config", None))
    if config is not None:
        values = _read_config(config, parser, command)
        if config.is_of_folder:
            _refuse_risky(config, values)
        for name in [*given, *command.list_rivals(given)]:
            values.pop(name, None)
    sources = {name: value.place for name, value in values.items()}
    sources |= dict.fromkeys(given, COMMAND_LINE)
    options.parsed = Parsed(command, sources, of_file=set(values))
    for action in command.list_actions():
        if action.dest in values:
            setattr(options, action.dest, values[action.dest].value)
        elif action.dest not in options and defaults[action] is not argparse.SUPPRESS:
            setattr(options, action.dest, defaults[action])
        if action in needed and action.dest not in sources and "show_config" not in options:
            name = "/".join(action.option_strings) or action.metavar or action.dest
            command.parser.error(f"the following arguments are required: {name}")
    return options


def _refuse_risky(config: Config, values: Mapping[str, FileValue]) -> None:
    for name, value in values.items():
        is_engine = name == "model" and is_address(value.value)  # it would get the conversations
        is_program = name == "tools" and ".py" in str(value.value)
        if name in RISKY or is_engine or is_program:
            option = name.replace("_", "-")
            message = f"{config.path}: {option} cannot be set by a file in the current folder"
            hint = f"If you trust the file, name it: --config {config.path.absolute()}"
            raise RequestError(message, hint=hint)


def _refuse_unknown(
    words: Sequence[str], command: ParsedCommand, options: argparse.Namespace
) -> None:
    known = [name for action in command.list_actions() for name in action.option_strings]
    for word in words:
        if not word.startswith("-"):
            hint = "options need their names, and a text or path with spaces needs quotes"
            if word.endswith(".gguf") and "-m" in known and "model" not in options:
                hint = f"the option -m names a model file (-m {shlex.quote(word)})"
            command.parser.error(f"unknown argument {word}: {hint}")
        message = f"unknown option {word}"
        close = get_close_matches(word.partition("=")[0], known, n=1)
        if close:
            message += f", did you mean {close[0]}?"
        command.parser.error(message)


def _suppress_defaults(parser: argparse.ArgumentParser) -> dict[argparse.Action, Any]:
    """Leaves options that are not given out of the namespaces of commands; returns the defaults."""
    defaults: dict[argparse.Action, Any] = {}
    for command in list_commands(parser):
        command.parser.set_defaults(command=command)
        for action in command.parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                defaults[action], action.default = action.default, argparse.SUPPRESS
    return defaults


def find_config(given: str | None) -> Config | None:
    """Finds the configuration file: the given one, or that of the current folder, or the user's
    own; None: there is none.

    Raises:
        RequestError: it cannot be read, is not TOML, or is nested too deeply.
    """
    is_named = given is not None
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    for path in (Path(NAME), Path(base, "constrained", "config.toml")):
        if given is None and path.is_file():
            given = str(path)
    if given is None:
        return None
    try:
        tables = tomllib.loads(read_input(given).decode("utf-8"))
        is_of_folder = not is_named and given == NAME
        return Config(Path(given), tables, is_of_folder=is_of_folder)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = 'Write lines of option = value, with text in quotes: host = "127.0.0.1"'
        raise RequestError(f"{given} is not TOML: {error}", hint=hint) from error
    except RecursionError as error:
        raise RequestError(
            f"{given} is nested too deeply", hint="Options are not nested"
        ) from error
    except OSError as error:
        hint = "Check the path (--config)"
        raise RequestError(f"{given} cannot be read: {error.strerror}", hint=hint) from error


def _read_config(
    config: Config, parser: argparse.ArgumentParser, command: ParsedCommand
) -> dict[str, FileValue]:
    """Returns the options of the file for a command: the common ones, then those of its own
    tables."""
    commands = {each.names: each for each in list_commands(parser)}
    common = _read_common(config, commands)
    refused: Collection[str] = command.parser.get_default("unset") or ()
    values: dict[str, FileValue] = {}
    own = {key: value for key, value in common.items() if _has_option(command, key)}
    for name, value in _read_table(command, own, place=f"{config.path}, [{COMMON}]").items():
        if name not in refused:
            values[name] = value
    tables = config.tables
    for depth in range(1, len(command.names) + 1):
        names = command.names[:depth]
        tables = tables.get(names[-1], {})
        options = {key: value for key, value in tables.items() if (*names, key) not in commands}
        place = f"{config.path}, [{'.'.join(names)}]"
        read = _read_table(commands[names], options, place=place)
        for name in command.list_rivals(read.keys()):
            values.pop(name, None)
        values |= read
    return values


def _read_common(
    config: Config, commands: Mapping[tuple[str, ...], ParsedCommand]
) -> dict[str, Any]:
    """Returns the options before all tables, and those of the table for all commands."""
    names = {names[0] for names in commands} | {COMMON}
    common: dict[str, Any] = {}
    for key, value in config.tables.items():
        if key not in names:
            common[key] = value
        elif not isinstance(value, dict):
            message = f"{config.path}: {key} is a command, not an option"
            raise RequestError(message, hint=f"Write [{key}] and its options below")
    for key, value in config.tables.get(COMMON, {}).items():
        if key in common:
            message = f"{config.path}: {key} is set twice, at the top and in [{COMMON}]"
            raise RequestError(message, hint="Remove one of them")
        common[key] = value
    everything = ParsedCommand(parsers=tuple(command.parser for command in commands.values()))
    for key, value in common.items():
        if not _has_option(everything, key) and isinstance(value, dict):
            close = get_close_matches(key, names, n=1)
            hint = f"Did you mean [{close[0]}]?" if close else None
            raise RequestError(f"{config.path}: there is no command {key!r}", hint=hint)
        find_option(everything, key, place=str(config.path))
    return common


def _has_option(command: ParsedCommand, key: str) -> bool:
    return any(_takes(action, f"--{key}") for action in command.list_actions())


def _takes(action: argparse.Action, option: str) -> bool:
    return option in action.option_strings and action.dest not in NOT_IN_FILES


def find_option(command: ParsedCommand, key: str, *, place: str, of: str = "") -> argparse.Action:
    """Returns the option with this long name, without its dashes. For errors: `place` is the file
    and its table, `of` the owner of the options, such as " for a model".

    Raises:
        RequestError: there is no such option; names the nearest one.
    """
    names: list[str] = []
    for action in command.list_actions():
        if _takes(action, f"--{key}"):
            return action
        if action.dest not in NOT_IN_FILES:
            names += [name[2:] for name in action.option_strings if name.startswith("--")]
    close = get_close_matches(key.replace("_", "-"), names, n=1)
    hint = f"Did you mean {close[0]}?" if close else None
    raise RequestError(f"{place}: there is no option {key!r}{of}", hint=hint)


def _read_table(
    command: ParsedCommand, table: Mapping[str, Any], *, place: str
) -> dict[str, FileValue]:
    """Returns the options of a table, by their names in the namespace."""
    words: list[str] = []
    values: dict[str, FileValue] = {}
    for key, value in table.items():
        action = find_option(command, key, place=place, of=f" for {' '.join(command.names)}")
        words += _write_words(action, key, value, place=place)
        if value is False:  # a switch that is off, which the command line cannot express
            values[action.dest] = FileValue(False, place)
    try:
        read = vars(command.parser.parse_args(words))
    except RequestError as error:
        raise RequestError(f"{place}: {error.message}") from error
    for action in command.list_actions():
        if action.dest in read:
            values[action.dest] = FileValue(read[action.dest], place)
    return values


def _write_words(action: argparse.Action, key: str, value: Any, *, place: str) -> list[str]:
    """Returns the words of the command line with the same meaning."""

    def refuse(expected: str) -> RequestError:
        shown = json.dumps(value, ensure_ascii=False, default=str)
        return RequestError(f"{place}: {key} is {shown}, not {expected}")

    option = f"--{key}"
    kind = action.type.kind if isinstance(action.type, AtLeast) else action.type
    match value:
        case bool() if action.nargs == 0:
            return [option] if value else []
        case _ if action.nargs == 0:
            raise refuse("true or false")
        case True if action.nargs == "?":
            return [option]
        case list() if isinstance(action, argparse._AppendAction):
            texts = [part for part in value if isinstance(part, str)]
            if len(texts) < len(value):
                raise refuse("a list of strings")
            return [f"{option}={text}" for text in texts]
        case dict() if str(action.metavar).startswith("JSON"):
            return [f"{option}={json.dumps(value)}"]
        case int() | float() if not isinstance(value, bool):
            if kind is int and isinstance(value, float):
                raise refuse("a whole number")
            return [f"{option}={value}"]
        case str() if kind not in (int, float):
            return [f"{option}={value}"]
        case _:
            kinds: dict[Any, str] = {int: "a whole number", float: "a number"}
            raise refuse(kinds.get(kind, "a string in quotes"))


def describe(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Lists each option of the command with its value and its source."""
    parsed: Parsed = options.parsed
    rows: list[dict[str, Any]] = []
    seen: set[str] = set(NOT_IN_FILES)
    for action in parsed.command.list_actions():
        names = [name for name in action.option_strings if name.startswith("--")]
        is_hidden = action.help == argparse.SUPPRESS
        if action.dest in seen or not names or is_hidden:
            continue
        seen.add(action.dest)
        value = getattr(options, action.dest, None)
        if value and str(action.metavar) in SECRET:
            value = "(not shown)"
        source = parsed.sources.get(action.dest, DEFAULT)
        rows.append({"option": names[0][2:], "value": value, "source": source})
    return rows
