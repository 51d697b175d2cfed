"""`constrained models`: lists the models on this machine, downloads and removes models."""

import argparse
import time
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
from constrained.engine.model_files.known_models import list_known
from constrained.engine.model_files.local_models import LocalModel

DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class ListedModel:
    """A model on this machine.

    Args:
        name: that `-m` and `load` take.
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
    models = [_describe(model) for model in list_known()]
    if options.json:
        print_json([vars(model) for model in models])
        return 0
    rows: list[dict[str, Any]] = []
    for model in models:
        row = {"name for -m": model.name, "size": _show_size(model.bytes), "from": model.source}
        row["for"] = model.purpose or "unreadable"
        rows.append({**row, "last read": _show_use(model.used)})
    print_table(rows, right=("size",))
    return 0


def _describe(model: LocalModel) -> ListedModel:
    purpose = read_purpose(model.path)
    option = _choose_option(purpose, model.source)
    return ListedModel(model.source, model.program, purpose, option, model.bytes, model.used)


def _choose_option(purpose: ModelPurpose | None, name: str) -> str | None:
    """Returns the command-line option that loads a model of this purpose; None: there is none."""
    match purpose:
        case ModelPurpose.EMBEDDINGS:
            return f"--embedding-model {name}"
        case ModelPurpose.RANKING:
            return None
        case _:
            return f"-m {name}"


def _show_size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _show_use(used: float | None) -> str | None:
    if used is None:
        return None
    days = int((time.time() - used) / DAY)
    match days:
        case 0:
            return "today"
        case 1:
            return "yesterday"
        case _:
            return f"{days} days ago"


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
