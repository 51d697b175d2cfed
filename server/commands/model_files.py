"""Further models that the command line offers: those of a folder, and those of a file of presets,
both in llama-server's format.

Format of presets: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
"""

import argparse
import copy
import re
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from constrained.cli import options as shared
from constrained.cli import request
from constrained.cli.configuration import ParsedCommand, find_option
from constrained.cli.declared import complete
from constrained.cli.terminal.input import read_text
from constrained.engine.sampling import Sampling
from constrained.errors import ModelError, RequestError
from constrained.model_files.local_models import find_models, measure_files, name_model
from constrained.model_files.sources import HUB, find_source
from constrained.remote.address import is_address, read_address
from server.models.source import ModelSource

if TYPE_CHECKING:
    from constrained.model.loaded_model import LoadedModel

FOR_ALL = "*"  # the section of presets for all models
DEMO = "demo"
TRUE, FALSE = ("1", "true", "on", "yes", "enabled"), ("0", "false", "off", "no", "disabled")


def load_model(options: argparse.Namespace) -> "LoadedModel":
    model = request.load_model(options)
    model.sampling = shared.read_sampling(options, model.sampling)
    return model


@dataclass(frozen=True)
class OfferedModel:
    """A model that the command line offers. `place` is where its options come from, for errors;
    empty: the command line."""

    name: str
    options: argparse.Namespace
    aliases: tuple[str, ...] = ()
    place: str = ""

    def make_source(self) -> ModelSource:
        """Returns the model as a source that is loaded on demand, or at the start if its options
        say so."""
        path = find_file(self.options.model)
        return ModelSource(
            self.name,
            partial(load_model, self.options),
            aliases=self.aliases,
            file_bytes=measure_files(path),
            path=None if path is None else Path(path),
            preloaded=self.options.load_on_startup,
        )


def find_offers(
    options: argparse.Namespace,
    declare: Callable[[argparse.ArgumentParser], None] | None = None,
) -> list[OfferedModel]:
    """Returns the models of --models-dir and --models-preset. A preset replaces a file of the same
    name, and inherits the options of `serve` that it does not set; `declare` declares its options
    other than those of a model."""
    found: dict[str, OfferedModel] = {}
    if options.models_preset is not None:
        text = read_text(options.models_preset, "--models-preset")
        place = options.models_preset
        for offer in read_presets(text, options, place=place, declare=declare):
            found[offer.name] = offer
    if options.models_dir is not None:
        for path in _list_files(Path(options.models_dir)):
            of_file = _with_model(options, str(path))
            name = name_model(path)
            found.setdefault(name, _make_offer(name, of_file))
    if found and options.alias and not options.model and not options.hf_repo:
        hint = "Name a model with -m or -hf, or write alias = NAME into its section"
        raise RequestError("--alias does not name a model", hint=hint)
    return list(found.values())


def name_first(options: argparse.Namespace, path: str | None) -> OfferedModel:
    """Returns the model of -m or -hf, or the demo model, with the names of --alias. `path` is that
    of its file, or the address of an engine; None: the demo model."""
    known = name_model(Path(path)) if path else DEMO
    if is_address(path):
        known = read_address(str(path)).kind
    name, *aliases = (options.alias or known).split(",")
    return OfferedModel(name, options, tuple(aliases))


def _list_files(folder: Path) -> list[Path]:
    """Returns the models in a folder and its subfolders; for a model in parts, the first part."""
    if not folder.is_dir():
        raise RequestError(f"--models-dir: there is no folder {folder}")
    paths = find_models([*folder.glob("*.gguf"), *folder.glob("*/*.gguf")])
    if not paths:
        raise RequestError(f"--models-dir: there is no GGUF file in {folder}")
    return paths


def read_presets(
    text: str,
    options: argparse.Namespace,
    *,
    place: str,
    declare: Callable[[argparse.ArgumentParser], None] | None = None,
) -> Iterator[OfferedModel]:
    """Yields the models of a file of presets. Each section is a model; its keys are long names of
    options. The file sets the others of `options`; `place` is its name, for errors."""
    # References between values (%(x)s) and a section of defaults are off, because values and names
    # may look like them.
    presets = ConfigParser(interpolation=None, default_section="", strict=True)
    presets.optionxform = str  # type: ignore[method-assign,assignment]  keys are not lowered
    try:
        presets.read_string(_without_version(text), source=place)
    except IniError as error:
        cause = " ".join(str(error).split())
        hint = "Write [NAME], then lines of option = value"
        raise RequestError(f"--models-preset: {cause}", hint=hint) from error
    common: Mapping[str, str] = {}
    if presets.has_section(FOR_ALL):
        common = presets[FOR_ALL]
    for name in presets.sections():
        if name != FOR_ALL:
            given = {**common, **presets[name]}
            parser = _make_parser()
            if declare is not None:
                declare(parser)
            yield _read_preset(name, given, options, parser=parser, place=f"{place}, [{name}]")


def _without_version(text: str) -> str:
    """Returns the text without the version of the format, which llama-server writes before the
    first section."""
    return re.sub(r"\A((?:\s*[;#].*\n|\s*\n)*)version\s*=\s*1\s*$", r"\1", text, flags=re.MULTILINE)


def _read_preset(
    name: str,
    given: Mapping[str, str],
    options: argparse.Namespace,
    *,
    parser: argparse.ArgumentParser,
    place: str,
) -> OfferedModel:
    words: list[str] = []
    for key, value in given.items():
        words += _read_option(parser, key, value, place=place)
    base = options
    if {"model", "hf-repo"} & given.keys():
        base = _with_model(options, None)
    try:
        read = parser.parse_args(words, namespace=copy.copy(base))
    except argparse.ArgumentError as error:
        raise RequestError(f"{place}: {error}") from error
    complete(read)
    if not read.model and not read.hf_repo:
        raise RequestError(f"{place}: there is no model", hint="Add a line model = FILE.gguf")
    # The file of presets may come from someone else, and a remote engine would get the
    # conversations.
    if {"model", "backend"} & given.keys() and is_address(read.model):
        raise RequestError(
            f"{place}: a preset cannot name an engine", hint="Give it with --backend"
        )
    return _make_offer(name, read, place=place)


def _make_parser() -> argparse.ArgumentParser:
    """Makes a parser for the options of a model. Options that are not given keep their values in
    the namespace."""
    parser = argparse.ArgumentParser(
        add_help=False, exit_on_error=False, argument_default=argparse.SUPPRESS, allow_abbrev=False
    )
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser)
    shared.add_sampling_options(parser)
    parser.add_argument("--alias")
    parser.add_argument("--load-on-startup", action="store_true")
    return parser


def _read_option(
    parser: argparse.ArgumentParser, key: str, value: str, *, place: str
) -> Iterator[str]:
    option = f"--{key}"
    action = find_option(ParsedCommand(parsers=(parser,)), key, place=place, of=" for a model")
    if action.nargs != 0:
        yield f"{option}={value}"
    elif value.lower() in TRUE:
        yield option
    elif value.lower() not in FALSE:
        raise RequestError(f"{place}: {key} is {value!r}, not true or false")


def _with_model(options: argparse.Namespace, path: str | None) -> argparse.Namespace:
    changed = copy.copy(options)
    changed.model, changed.hf_repo, changed.hf_file, changed.alias = path, None, None, None
    changed.load_on_startup = False
    return changed


def _make_offer(name: str, options: argparse.Namespace, *, place: str = "") -> OfferedModel:
    shared.read_sampling(options, Sampling())  # so an error shows when the server starts
    aliases = [alias.strip() for alias in (options.alias or "").split(",")]
    return OfferedModel(name, options, tuple(filter(None, aliases)), place)


def find_file(model: str | None) -> str | None:
    """Returns the file of a model; None if it is not on this machine, or not yet."""
    if model is None or model.startswith(HUB):
        return None
    try:
        return str(find_source(model))
    except ModelError:
        return None
