"""Options as `Option` declares them: added to a parser, completed from the environment, and read
back as the fields of their dataclass.

The environment is read when the command runs, so a wrong variable does not affect commands that do
not use it.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from constrained.cli.configuration import MODEL, AtLeast, Parsed, ParsedCommand, find_rivals
from constrained.engine.options import Option, list_options, read_layers, read_parts, read_switch
from constrained.errors import RequestError

DETAILS = ("look inside", "operate")
"""How the titles of groups begin that only --help-all shows; the others are for every day."""


def read_flag(text: str) -> bool:
    """Reads a flag as llama-server does: unknown words mean off."""
    return text in ("1", "on", "enabled", "true")


def read_list(text: str) -> list[str]:
    """Makes a list of one text, for an option that may be given several times."""
    return [text]


WORDS: dict[Any, str] = {
    int: "a number",
    float: "a number",
    read_switch: "on, off or auto",
    read_layers: "a number, auto or all",
    read_parts: "numbers with commas between them",
}


def rank_group(title: str | None) -> int:
    """Returns the place of a group of options in the help: 0 for those of every day."""
    ranks = [rank for rank, word in enumerate(DETAILS, 1) if (title or "").startswith(word)]
    return max(ranks, default=0)


def find_group(parser: argparse.ArgumentParser, title: str) -> argparse._ActionsContainer:
    """Returns the group of a parser with this title, a new one if there is none."""
    for group in parser._action_groups:  # argparse has no public way to list them
        if group.title == title:
            return group
    return parser.add_argument_group(title)


def add_option(parser: argparse.ArgumentParser, form: str, help: str, **details: Any) -> None:
    """Declares an option that is no field of a dataclass; the arguments are those of `Option`."""
    _add(parser, Option(form, help, **details))


def add_fields(
    parser: argparse.ArgumentParser,
    kind: type[Any],
    group: str,
    *,
    keep_unset: bool = False,
    **defaults: Any,
) -> None:
    """Declares the options of a dataclass.

    Args:
        parser: of the command.
        kind: the dataclass.
        group: the title in the help for options that declare none.
        keep_unset: as in `Option`.
        defaults: of fields for which the command has another one.
    """
    for name, option in list_options(kind):
        if option.form:
            default = defaults.get(name, option.default)
            group_ = option.group or group
            _add(parser, replace(option, group=group_, default=default, keep_unset=keep_unset))


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    is_completed = option.variable is not None or option.read is not None
    given = {"help": _write_help(option), **_describe_kind(option), **option.further}
    if option.metavar is not None:
        given["metavar"] = option.metavar
    given["default"] = None if is_completed or option.keep_unset else _count(option)
    action = find_group(parser, option.group).add_argument(*option.names, **given)
    if is_completed:
        known = parser.get_default("declared") or {}
        parser.set_defaults(declared={**known, action.dest: option})


def _count(option: Option) -> Any:
    """Returns the default in the units of the command line."""
    default = option.default
    if option.kind is bool:
        return bool(default)
    if default == ():
        return None
    return default // option.unit if option.unit > 1 else default


def _write_help(option: Option) -> str:
    help, default = option.help, option.default
    if not (default in (None, "", ()) or isinstance(default, bool) or "default" in help):
        shown = _count(option)
        form = {int: ",", float: "g"}.get(type(shown), "")
        help = f"{help}; default: {shown:{form}}"
    return help if option.variable is None else f"{help} ({option.variable})"


def _describe_kind(option: Option) -> dict[str, Any]:
    """Returns the arguments of argparse for the type of an option."""
    kind = option.kind
    if option.read is not None:
        return {}
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is tuple:
        return {"action": "append"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if issubclass(kind, StrEnum):
        return {"choices": tuple(kind)}
    if kind in (int, float):
        return {"type": kind if option.least is None else AtLeast(option.least, kind)}
    return {}


def _find_reader(option: Option) -> Any:
    if option.read is not None:
        return option.read
    if get_origin(option.kind) is tuple:
        return read_list
    readers: dict[Any, Any] = {bool: read_flag, int: int, float: float}
    return readers.get(option.kind, str)


def read_fields(kind: type[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of a dataclass that the completed options give, by name."""
    values: dict[str, Any] = {}
    for name, option in list_options(kind):
        value = getattr(options, option.key) if option.form else None
        if value is not None:
            values[name] = _make(option, value)
    return values


def _make(option: Option, value: Any) -> Any:
    kind = option.kind
    if option.make is not None:
        return option.make(value)
    if option.turns_off:
        return not value
    if get_origin(kind) is tuple:
        return tuple(value)
    if isinstance(kind, type) and issubclass(kind, (Path, StrEnum)):
        return kind(value)
    return value * option.unit if option.unit != 1 else value


def complete(options: argparse.Namespace) -> None:
    """Fills in missing options from the environment, which overrides the configuration file.

    Raises:
        RequestError: a variable or an option cannot be read.
    """
    parsed: Parsed = getattr(options, "parsed", Parsed(ParsedCommand()))
    declared: Mapping[str, Option] = getattr(options, "declared", {})
    named = {name for name in MODEL if getattr(options, name, None)} - parsed.of_file
    # If the command line names a model, variables do not name another one; if variables name one,
    # the file does not.
    ignored = find_rivals(named)
    variables = {
        name: str(option.variable)
        for name, option in declared.items()
        if os.environ.get(option.variable or "") and name not in named | ignored
    }
    for name in find_rivals(variables.keys()) & parsed.of_file:
        setattr(options, name, None)
        del parsed.sources[name]
    for name, option in declared.items():
        given, read = getattr(options, name), _find_reader(option)
        if name in variables and (given is None or name in parsed.of_file):
            text = os.environ[variables[name]]
            setattr(options, name, read_value(variables[name], text, read))
            parsed.sources[name] = variables[name]
        elif isinstance(given, str):
            place = f"--{name.replace('_', '-')}"
            if name in parsed.of_file:
                place = f"{parsed.sources[name]}: {place[2:]}"
            setattr(options, name, read_value(place, given, read))
        elif given is None and name not in ignored:
            setattr(options, name, None if option.keep_unset else option.default)
    parsed.of_file.clear()  # a second call changes nothing


def read_value(name: str, text: str, read: Any) -> Any:
    """Reads the value of an option or a variable.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        return read(text)
    except (ValueError, KeyError) as e:
        raise RequestError(f"{name} is {text!r}, not {WORDS[read]}") from e
