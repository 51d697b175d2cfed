"""`constrained cachecheck`: checks how a running server reuses its prompt cache."""

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.output import print_json, print_table, print_text

if TYPE_CHECKING:
    from constrained.inspect.cache_check.report import CacheCost, CacheReport

_NUMBERS = ("prompt tokens", "cached", "expected", "lost")


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    help = "a server with the API of OpenAI, such as http://127.0.0.1:8080"
    parser.add_argument("url", metavar="URL", help=help)
    help = "the model to ask; default: the server's only model"
    parser.add_argument("--model", dest="served_model", metavar="NAME", default="", help=help)
    help = "the key of the server (LLAMA_API_KEY)"
    parser.add_argument("--api-key", dest="server_key", metavar="KEY", help=help)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> int:
    from constrained.inspect.cache_check.chat_client import ChatClient
    from constrained.inspect.cache_check.report import check_server

    key = options.server_key
    if key is None:
        key = os.environ.get("LLAMA_API_KEY", "").partition(",")[0]
    client = ChatClient(options.url, api_key=key, model=options.served_model)
    report = check_server(client)
    if options.json:
        print_json(report.to_json())
    else:
        _show(report)
    return ExitCode.NEGATIVE if report.meter is None else ExitCode.DONE


def _show(report: "CacheReport") -> None:
    from constrained.inspect.cache_check.report import NO_CACHE

    print_text(f"{report.url}, {report.model}: {report.requests} requests")
    if report.meter is None:
        print_text("No cache reads were found, judging by usage and times")
        print_text(f"  -> {NO_CACHE}")
        return
    print_text(f"Read from {report.meter.source}" + _warn(report))
    print_text("")
    print_table([_make_row(cost) for cost in report.costs], right=_NUMBERS)
    print_text("")
    lines = list(_describe_remedies(report))
    print_text("\n".join(lines) if lines else "Nothing is lost")


def _warn(report: "CacheReport") -> str:
    if report.meter is not None and report.meter.is_estimate:
        return ": an estimate, which misses losses below a quarter of a prompt"
    return ""


def _make_row(cost: "CacheCost") -> dict[str, Any]:
    todo = cost.advice or "nothing"
    if cost.is_unseen:
        todo = "nothing: the template does not write it"
    if cost.refused:
        numbers = dict.fromkeys(_NUMBERS)
        return {"shape or habit": cost.name, **numbers, "what to do": "the server refuses it"}
    return {
        "shape or habit": cost.name,
        "prompt tokens": cost.prompt_tokens,
        "cached": cost.cached,
        "expected": cost.expected,
        "lost": cost.lost,
        "what to do": todo,
    }


def _describe_remedies(report: "CacheReport") -> Iterator[str]:
    for cost in report.costs:
        remedy = cost.explain()
        if remedy:
            yield f"  -> {remedy}"
    if not report.has_template and any(cost.lost for cost in report.costs):
        text = "The server does not publish its chat template"
        yield f"{text}: `constrained doctor` finds the clause in it"
