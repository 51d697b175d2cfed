"""Options as they are declared: added to a parser, completed from the environment, and read back as
the fields of their dataclass.

A field of a dataclass is an option if its docstring has the form of one in parentheses, after what
the help says: `(-c --ctx-size TOKENS $LLAMA_ARG_CTX_SIZE; engine)` has its names, what the help
calls its value, its environment variable, and the title of its group in the help. What follows is
only for readers of the library. A configuration file has the long names.

The environment is read when the command runs, so a wrong variable does not affect commands that do
not use it.
"""

import argparse
import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from constrained.cli.configuration import MODEL, AtLeast, Parsed, ParsedCommand, find_rivals
from constrained.engine.options import PLAIN, ValueForm, read_hint
from constrained.errors import RequestError

DETAILS = ("debug", "advanced")
"""How the titles of groups begin that only --help-all shows; the others are for every day."""
UNITS = {"KIB": 1 << 10, "K": 1 << 10, "MIB": 1 << 20}
"""What the help calls a value -> how many bytes or characters one of it is."""
ENTRY = re.compile(r"^    (\w+): (.+(?:\n     .+)*)", re.MULTILINE)
"""What a docstring says of a field."""
FORM = re.compile(r"(.+) \((-[^)]*)\)")
"""What the help says of an option, and its form."""


@dataclass(frozen=True)
class Option:
    """What users see of an option, wherever they give it.

    Args:
        form: as above, without its group.
        help: what it does. The default is added, unless the text names it.
        group: the title of its group in the help.
        default: the value if nothing sets it, as the command line would have it.
        value_form: how users write its value.
        least: the smallest number that the command line takes.
        keep_unset: without a value it stays None in the namespace, since the library or the model
            chooses.
    """

    form: str
    help: str
    group: str = "options"
    kind: Any = str
    default: Any = None
    value_form: ValueForm = PLAIN
    least: int | None = None
    keep_unset: bool = False

    def _find(self, start: str) -> list[str]:
        return [word for word in self.form.split() if word[0] in start]

    @property
    def names(self) -> list[str]:
        """Its names on the command line."""
        return self._find("-")

    @property
    def key(self) -> str:
        """Its name in the namespace of argparse."""
        return next(name for name in self.names if name[:2] == "--")[2:].replace("-", "_")

    @property
    def variable(self) -> str:
        """Its environment variable; empty: it has none."""
        return "".join(self._find("$"))[1:]

    @property
    def metavar(self) -> str | None:
        """What the help calls its value."""
        words = [word for word in self.form.split() if word[0] not in "-$"]
        return words[0] if words else None

    @property
    def is_completed(self) -> bool:
        """True if its value may come from the environment, or is read when the command runs."""
        return bool(self.variable) or self.value_form.read is not None

    @property
    def unit(self) -> int:
        """How many bytes or characters one of its value is."""
        return UNITS.get(self.metavar or "", 1)


@cache
def list_options(kind: type[Any]) -> Mapping[str, Option]:
    """Returns the options of a dataclass, by the names of their fields.

    Raises:
        RequestError: Python runs without docstrings.
    """
    texts = dict(ENTRY.findall(inspect.getdoc(kind) or ""))
    options: dict[str, Option] = {}
    for each in fields(kind):
        found = FORM.match(" ".join(texts.get(each.name, "").split()))
        if found is not None:
            form, _, group = found[2].partition("; ")
            hint, limits, value_form = read_hint(each.type)
            default = None if each.default in (MISSING, ()) else each.default
            least = None if limits is None else limits.least
            option = Option(form, found[1], group, hint, default, value_form, least)
            if default is not None and option.unit > 1:
                option = replace(option, default=default // option.unit)
            options[each.name] = option
    if not options:
        raise RequestError("options are read from docstrings", hint="Run Python without -OO")
    return options


def read_flag(text: str) -> bool:
    """Reads a flag as llama-server does: unknown words mean off."""
    return text in ("1", "on", "enabled", "true")


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
    """Declares the options of a dataclass, which checks numbers itself if they are `keep_unset`.

    Args:
        group: the title in the help for options that declare none.
        defaults: of fields for which the command has another one.
    """
    for name, option in list_options(kind).items():
        default = defaults.get(name, option.default)
        changed = replace(option, group=option.group or group, default=default)
        if keep_unset:
            changed = replace(changed, keep_unset=True, least=None)
        _add(parser, changed)


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    default = bool(option.default) if option.kind is bool else option.default
    if option.is_completed or option.keep_unset:
        default = None
    given = {"default": default, "help": _write_help(option), **_describe_kind(option)}
    if option.metavar is not None:
        given["metavar"] = option.metavar
    given |= option.value_form.further
    action = find_group(parser, option.group).add_argument(*option.names, **given)
    if option.is_completed:
        known = parser.get_default("declared") or {}
        parser.set_defaults(declared={**known, action.dest: option})


def _write_help(option: Option) -> str:
    help, shown = option.help, option.default
    if option.kind is bool and shown:
        help = f"do not {help}"
    if not (shown in (None, "") or isinstance(shown, bool) or "default" in help):
        form = ""
        if isinstance(shown, float):
            form = "g"
        elif isinstance(shown, int) and shown >= 10_000:
            form = ","
        help = f"{help}; default: {shown:{form}}"
    return f"{help} ({option.variable})" if option.variable else help


def _describe_kind(option: Option) -> dict[str, Any]:
    """Returns the arguments of argparse for the type of an option."""
    kind = option.kind
    if option.value_form.read is not None:
        return {}
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is tuple:
        return {"action": "append"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"choices": tuple(kind)}
    if kind in (int, float):
        return {"type": kind if option.least is None else AtLeast(option.least, kind)}
    return {}


def read_fields(kind: type[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of a dataclass that the completed options give, by name."""
    values: dict[str, Any] = {}
    for name, option in list_options(kind).items():
        value = getattr(options, option.key)
        if value is not None:
            values[name] = _make(option, value)
    return values


def _make(option: Option, value: Any) -> Any:
    kind = option.kind
    if option.value_form.make is not None:
        return option.value_form.make(value)
    if kind is bool and option.default is True:  # the option turns it off
        return not value
    if get_origin(kind) is tuple:
        return tuple(value)
    if isinstance(kind, type) and issubclass(kind, (Path, StrEnum)):
        return kind(value)
    return value * option.unit if option.unit > 1 else value


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
        name: option.variable
        for name, option in declared.items()
        if os.environ.get(option.variable) and name not in named | ignored
    }
    for name in find_rivals(variables.keys()) & parsed.of_file:
        setattr(options, name, None)
        del parsed.sources[name]
    for name, option in declared.items():
        given = getattr(options, name)
        if name in variables and (given is None or name in parsed.of_file):
            variable = variables[name]
            setattr(options, name, _read(option, variable, os.environ[variable]))
            parsed.sources[name] = variable
        elif isinstance(given, str):
            place = f"--{name.replace('_', '-')}"
            if name in parsed.of_file:
                place = f"{parsed.sources[name]}: {place[2:]}"
            setattr(options, name, _read(option, place, given))
        elif given is None and name not in ignored:
            setattr(options, name, None if option.keep_unset else option.default)
    parsed.of_file.clear()  # a second call changes nothing


def _read(option: Option, name: str, text: str) -> Any:
    """Reads the value of an option or a variable of this name."""
    kind, read = option.kind, option.value_form.read
    if read is None and get_origin(kind) is tuple:
        return [text]  # as if it was given once
    if read is None:
        read = {bool: read_flag, int: int, float: float}.get(kind, str)
    try:
        return read(text)
    except (ValueError, KeyError) as e:
        wanted = option.value_form.words or "a number"
        raise RequestError(f"{name} is {text!r}, not {wanted}") from e
