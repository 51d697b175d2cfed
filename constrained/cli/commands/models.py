"""`constrained models`: lists the models on this machine, downloads and removes models."""

import argparse
import time
from typing import Any

from constrained.cli.terminal.output import (
    print_data,
    print_json,
    print_notes,
    print_table,
    print_text,
    show_progress,
)
from constrained.engine.gguf.contents import ModelPurpose, read_purpose
from constrained.engine.model_files.known_models import list_known

DAY = 24 * 60 * 60  # seconds


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
    models: list[dict[str, Any]] = []
    for model in list_known():
        purpose = read_purpose(model.path)
        described = {"name": model.source, "source": model.program, "purpose": purpose}
        described["option"] = _choose_option(purpose, model.source)
        models.append({**described, "bytes": model.bytes, "used": model.used})
    if options.json:
        print_json(models)
        return 0
    rows: list[dict[str, Any]] = []
    for model in models:
        row = {"name for -m": model["name"], "size": _show_size(model["bytes"])}
        row |= {"from": model["source"], "for": model["purpose"] or "unreadable"}
        rows.append({**row, "last read": _show_use(model["used"])})
    print_table(rows, right=("size",))
    print_notes(["`constrained eval MODEL ...` finds which of them call tools"])
    return 0


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
