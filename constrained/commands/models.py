"""`constrained models`: the models on this machine; downloading and removing one."""

import argparse
import time
from dataclasses import dataclass
from typing import Any

from constrained.errors import ModelError
from constrained.terminal.output import print_json, print_table, print_text, show_progress

DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class ListedModel:
    """A model, where it is from, and the option that takes it."""

    name: str
    source: str
    option: str
    bytes: int
    used: float | None


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_list)
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(metavar="[pull|rm]")
    pull = actions.add_parser("pull", help="download a model of the Hub, and print its path")
    pull.set_defaults(run=_pull)
    pull.add_argument("--hf-token", metavar="TOKEN", help="token of an account that may read it")
    remove = actions.add_parser("rm", help="remove a model of the Hub from this machine")
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
        rows.append({**row, "used": _show_use(model.used), "option": model.option})
    print_table(rows, right=("size",))
    return 0


def _list_packaged() -> list[ListedModel]:
    """The models that installed packages bring."""
    from constrained.model_files.packaged import MODELS, find_packaged

    models: list[ListedModel] = []
    for name in MODELS:
        try:
            path = find_packaged(name)
        except ModelError:  # its package is not installed
            continue
        if path is not None:
            models.append(ListedModel(name, "a package", f"-m {name}", path.stat().st_size, None))
    return models


def _list_hub() -> list[ListedModel]:
    from constrained.model_files.hub_cache import list_cached

    models: list[ListedModel] = []
    for model in list_cached():
        option = f"-hf {model.name}"
        models.append(ListedModel(model.name, "Hugging Face", option, model.bytes, model.used))
    return models


def _list_others() -> list[ListedModel]:
    from constrained.model_files.local_models import list_local

    models: list[ListedModel] = []
    for model in list_local():
        option = f"-m {model.path}"
        models.append(ListedModel(model.name, model.program, option, model.bytes, model.used))
    return models


def _show_size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _show_use(used: float | None) -> str | None:
    if used is None:
        return None
    days = int((time.time() - used) / DAY)
    return f"{days} days ago" if days > 1 else "lately"


def _pull(options: argparse.Namespace) -> int:
    from constrained.model_files.hub import fetch

    with show_progress("downloading") as progress:
        path = str(fetch(options.spec, token=options.hf_token, progress=progress))
    if options.json:
        print_json({"path": path})
    else:
        print_text(path)
    return 0


def _remove(options: argparse.Namespace) -> int:
    from constrained.model_files.hub_cache import remove_cached

    model = remove_cached(options.spec)
    if options.json:
        print_json({"name": model.name, "bytes": model.bytes})
    else:
        print_text(f"removed {model.name}, {_show_size(model.bytes)}")
    return 0
