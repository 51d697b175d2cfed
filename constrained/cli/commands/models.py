"""`constrained models`: lists the models on this machine, downloads and removes models."""

import argparse
import sys
import time
from contextlib import suppress
from typing import Any

from constrained.cli.terminal.output import (
    print_data,
    print_json,
    print_notes,
    print_table,
    print_text,
    show_progress,
)
from constrained.engine.gguf.contents import ModelPurpose, read_all_parts
from constrained.engine.gguf.weights import find_false_claim, measure_bits
from constrained.errors import ModelError
from constrained.model_files.local_models import LocalModel
from constrained.model_files.sources import list_known

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
        models.append(_describe(model))
    if options.json:
        print_json(models)
        return 0
    rows: list[dict[str, Any]] = []
    for model in models:
        row = {"name for -m": model["name"], "size": _show_size(model["bytes"])}
        row |= {"from": model["source"], "for": model["purpose"] or "unreadable"}
        row["bits per weight"] = _show_bits(model["bits"], model["claim"])
        rows.append({**row, "last read": _show_use(model["used"])})
    print_table(rows, right=("size",))
    if sys.stdout.isatty():
        print_notes(["`constrained eval MODEL ...` finds which of them call tools"])
    return 0


def _describe(model: LocalModel) -> dict[str, Any]:
    """Describes a model as JSON; without its purpose and bits if its files cannot be read, which
    loading explains."""
    purpose = bits = claim = None
    with suppress(ModelError):
        contents = read_all_parts(model.path)
        purpose, bits = contents.purpose, measure_bits(contents.tensors)
        claim = find_false_claim(contents, model.name)
    has_replies = purpose not in (ModelPurpose.EMBEDDINGS, ModelPurpose.RANKING)
    return {
        "name": model.source,
        "source": model.program,
        "purpose": purpose,
        "option": f"-m {model.source}" if has_replies else None,
        "bytes": model.bytes,
        "bits": bits and round(bits, 2),
        "claim": claim and claim.claim,  # a quantisation that the name states, and the file lacks
        "used": model.used,
    }


def _show_size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _show_bits(bits: float | None, claim: str | None) -> str | None:
    if bits is None:
        return None
    return f"{bits:.1f}" if claim is None else f"{bits:.1f}, not {claim}"


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
    from constrained.model_files.hub import fetch

    with show_progress("downloading") as progress:
        path = str(fetch(options.spec, token=options.hf_token, progress=progress))
    if options.json:
        print_json({"path": path})
    else:
        print_data(path)
    return 0


def _remove(options: argparse.Namespace) -> int:
    from constrained.model_files.hub_cache import remove_cached

    model = remove_cached(options.spec)
    if options.json:
        print_json({"name": model.name, "bytes": model.bytes})
    else:
        print_text(f"removed {model.name}, {_show_size(model.bytes)}")
    return 0
