"""`constrained models`: lists the models on this machine, downloads and removes models."""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from constrained.cli.terminal.output import (
    print_data,
    print_json,
    print_table,
    print_text,
    show_progress,
)
from constrained.engine.gguf.contents import ModelPurpose, read_purpose
from constrained.engine.model_files.sources import HUB
from constrained.errors import ModelError

DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class ListedModel:
    """A model on this machine.

    Args:
        name: of the model.
        source: where it comes from, such as "Hugging Face".
        purpose: what it was made for; None: its file cannot be read.
        option: the command-line option that loads it; None: there is none.
        bytes: the size of its files.
        used: when it was last read, in seconds since 1970; None: not known.
    """

    name: str
    source: str
    purpose: ModelPurpose | None
    option: str | None
    bytes: int
    used: float | None = None


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_list)
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(metavar="[pull|rm]")
    pull = actions.add_parser("pull", help="download a model from the Hub, and print its path")
    pull.set_defaults(run=_pull)
    pull.add_argument("--hf-token", metavar="TOKEN", help="token of an account with access to it")
    remove = actions.add_parser("rm", help="remove a downloaded model from this machine")
    remove.set_defaults(run=_remove)
    for action in (pull, remove):
        action.add_argument("spec", metavar="USER/REPO[:QUANT]", help="a model of the Hub")
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def _list(options: argparse.Namespace) -> int:
    models = [*_list_packaged(), *_list_hub(), *_list_others()]
    if options.json:
        print_json([vars(model) for model in models])
        return 0
    rows: list[dict[str, Any]] = []
    for model in models:
        row = {"model": model.name, "size": _show_size(model.bytes), "from": model.source}
        row["for"] = model.purpose or "unreadable"
        rows.append({**row, "used": _show_use(model.used), "option": model.option})
    print_table(rows, right=("size",))
    return 0


def _list_packaged() -> Iterator[ListedModel]:
    """Yields the models in installed packages."""
    from constrained.engine.model_files.packaged import MODELS, find_packaged

    for name in MODELS:
        try:
            path = find_packaged(name)
        except ModelError:  # its package is not installed
            continue
        if path is not None:
            purpose = read_purpose(path)
            size = path.stat().st_size
            option = _choose_option(purpose, f"-m {name}", source=name)
            yield ListedModel(name, "a package", purpose, option, size)


def _list_hub() -> Iterator[ListedModel]:
    from constrained.engine.model_files.hub_cache import list_cached

    for model in list_cached():
        purpose = read_purpose(model.path)
        option = _choose_option(purpose, f"-hf {model.name}", source=f"{HUB}{model.name}")
        yield ListedModel(model.name, "Hugging Face", purpose, option, model.bytes, model.used)


def _list_others() -> Iterator[ListedModel]:
    from constrained.engine.model_files.local_models import list_local

    for model in list_local():
        purpose = read_purpose(model.path)
        option = _choose_option(purpose, f"-m {model.path}", source=str(model.path))
        yield ListedModel(model.name, model.program, purpose, option, model.bytes, model.used)


def _choose_option(purpose: ModelPurpose | None, writes: str, *, source: str) -> str | None:
    """Returns the command-line option that loads a model; None: there is none.

    Args:
        purpose: what it was made for.
        writes: the option for a model that generates text.
        source: the model, as `--embedding-model` takes it.
    """
    match purpose:
        case ModelPurpose.EMBEDDINGS:
            return f"--embedding-model {source}"
        case ModelPurpose.RANKING:
            return None
        case _:
            return writes


def _show_size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _show_use(used: float | None) -> str | None:
    if used is None:
        return None
    days = int((time.time() - used) / DAY)
    return f"{days} days ago" if days > 1 else "lately"


def _pull(options: argparse.Namespace) -> int:
    from constrained.engine.model_files.hub import fetch

    with show_progress("downloading") as progress:
        path = str(fetch(options.spec, token=options.hf_token, progress=progress))
    if options.json:
        print_json({"path": path})
    else:
        print_data(path)
    return 0


def _remove(options: argparse.Namespace) -> int:
    from constrained.engine.model_files.hub_cache import remove_cached

    model = remove_cached(options.spec)
    if options.json:
        print_json({"name": model.name, "bytes": model.bytes})
    else:
        print_text(f"removed {model.name}, {_show_size(model.bytes)}")
    return 0
