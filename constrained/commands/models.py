"""`constrained models`: the models on this machine; downloading and removing one."""

import argparse
import time
from typing import Any

from constrained.commands.options import show_progress
from constrained.commands.output import print_json, print_text
from constrained.errors import ModelError

DAY = 24 * 60 * 60  # seconds


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_list)
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(metavar="[pull|rm]")
    pull = actions.add_parser("pull", help="download a model, and print its path")
    pull.set_defaults(run=_pull)
    pull.add_argument("--hf-token", metavar="TOKEN", help="of an account that may read it")
    remove = actions.add_parser("rm", help="remove a model from this machine")
    remove.set_defaults(run=_remove)
    for action in (pull, remove):
        action.add_argument("spec", metavar="USER/REPO[:QUANT]", help="a model of the Hub")
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def _list(options: argparse.Namespace) -> int:
    from constrained.model.hub_cache import list_cached

    rows: list[dict[str, Any]] = []
    for name, size in _measure_packaged().items():
        rows.append({"name": name, "option": f"-m {name}", "bytes": size, "used": None})
    for model in list_cached():
        row = {"name": model.name, "option": f"-hf {model.name}", "bytes": model.bytes}
        rows.append({**row, "used": model.used})
    if options.json:
        print_json(rows)
        return 0
    width = max(len(row["option"]) for row in rows)
    for row in rows:
        size, used = _show_size(row["bytes"]), _show_use(row["used"])
        print_text(f"{row['option']:{width}}  {size:>9}  {used}")
    return 0


def _measure_packaged() -> dict[str, int]:
    """The sizes of the models that installed packages bring."""
    from constrained.model.packaged import MODELS, find_packaged

    sizes: dict[str, int] = {}
    for name in MODELS:
        try:
            path = find_packaged(name)
        except ModelError:  # its package is not installed
            continue
        if path is not None:
            sizes[name] = path.stat().st_size
    return sizes


def _show_size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _show_use(used: float | None) -> str:
    if used is None:
        return "of a package"
    days = int((time.time() - used) / DAY)
    return f"used {days} days ago" if days > 1 else "used in the last two days"


def _pull(options: argparse.Namespace) -> int:
    from constrained.model.hub import fetch

    progress = show_progress("downloading")
    path = str(fetch(options.spec, token=options.hf_token, progress=progress))
    if options.json:
        print_json({"path": path})
    else:
        print_text(path)
    return 0


def _remove(options: argparse.Namespace) -> int:
    from constrained.model.hub_cache import remove_cached

    model = remove_cached(options.spec)
    if options.json:
        print_json({"name": model.name, "bytes": model.bytes})
    else:
        print_text(f"removed {model.name}, {_show_size(model.bytes)}")
    return 0
