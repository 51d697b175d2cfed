"""`constrained trace`: shows traces as one HTML page, or as text."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli.terminal.input import read_lines
from constrained.cli.terminal.output import print_data, print_text
from constrained.engine.files.stored import skipping
from constrained.errors import RequestError

if TYPE_CHECKING:
    from constrained.model.call_options import CompiledTurnOptions
    from constrained.model.reply import Reply
    from constrained.model.trace.turn_trace import TurnTrace

HINT = "Give a file that --trace has written"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run, json=False)
    parser.add_argument("file", metavar="FILE", help="written by --trace; -: stdin")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PAGE",
        help="file for the page; default: FILE with the ending .html; -: stdout",
    )
    help = "only the replies to this request of a server (header x-request-id)"
    parser.add_argument("--request", metavar="ID", help=help)
    parser.add_argument("--last", type=int, metavar="N", help="only the last N traces")
    parser.add_argument("--text", action="store_true", help="print the traces instead of a page")
    help = "with --text: list each token with its place"
    parser.add_argument("--tokens", action="store_true", help=help)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Declares the option of commands that generate."""
    help = "append a trace of each turn to FILE: what decided each token (constrained trace)"
    parser.add_argument("--trace", metavar="FILE", help=help)


class TraceSaver:
    """Appends the traces of turns to the file of --trace.

    Args:
        path: of the file; None: nothing is traced.
    """

    def __init__(self, path: str | None):
        self._path = path
        self._failed: list[TurnTrace] = []

    @property
    def options(self) -> "CompiledTurnOptions":
        """Returns the options of a turn, traced or not."""
        if self._path is None:
            return {}
        return {"trace": True, "note_failed_trace": self._failed.append}

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Saves the trace of the turn that is generated inside, if it fails.

        Raises:
            RequestError: the file cannot be written.
        """
        self._failed.clear()
        try:
            yield
        except Exception:
            if self._failed:
                self._append(self._failed[-1])
            raise

    def save(self, reply: "Reply") -> None:
        """Saves the trace of a reply.

        Raises:
            RequestError: the file cannot be written.
        """
        if reply.trace is not None:
            self._append(reply.trace)

    def _append(self, trace: "TurnTrace") -> None:
        if self._path is None:
            return
        try:
            trace.save(self._path)
        except OSError as e:
            raise _name_failure(e, "--trace", self._path) from e


def _name_failure(error: OSError, option: str, path: str) -> RequestError:
    message = f"{option}: {error.strerror}: {path!r}"
    return RequestError(message, hint="Name a file that can be written")


def _run(options: argparse.Namespace) -> int:
    traces = _select(_read_traces(options.file), options)
    if options.text:
        _print_traces(traces, lists_tokens=options.tokens)
        return 0
    _write_page(traces, options)
    return 0


def _read_traces(path: str) -> list[dict[str, Any]]:
    """Reads the traces of a file; lines that are none are skipped.

    Raises:
        RequestError: it has none that can be read.
    """
    from constrained.model.trace.turn_trace import VERSION

    traces: list[dict[str, Any]] = []
    for number, line in enumerate(read_lines(path, "FILE"), 1):
        if not line.strip():
            continue
        with skipping(f"{path}, line {number},"):
            trace = json.loads(line)
            if trace.get("version") != VERSION or "tokens" not in trace:
                raise ValueError("it is not a trace of this version")
            traces.append(trace)
    if not traces:
        raise RequestError(f"{path} has no trace that can be read", hint=HINT)
    return traces


def _select(traces: list[dict[str, Any]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Selects traces by the options.

    Raises:
        RequestError: there are none.
    """
    if options.last is not None and options.last < 1:
        message = f"--last is {options.last}, must be 1 or more"
        raise RequestError(message, where="/last", hint="Leave it out to show all traces")
    selected = traces
    if options.request is not None:
        selected = [one for one in traces if _find_request(one) == options.request]
        if not selected:
            message = f"{options.file} has no trace of request {options.request}"
            hint = "A server's older traces are in FILE.1"
            raise RequestError(message, where="/request", hint=hint)
    return selected if options.last is None else selected[-options.last :]


def _find_request(trace: Mapping[str, Any]) -> Any:
    request = trace.get("request")
    return request.get("id") if isinstance(request, Mapping) else None


def _print_traces(traces: list[dict[str, Any]], *, lists_tokens: bool) -> None:
    from constrained.cli.terminal.show import Screen
    from constrained.inspect.trace_text import write_text

    is_coloured = Screen().is_styled
    shown = 0
    for number, trace in enumerate(traces, 1):
        if len(traces) > 1:
            print_text(f"turn {number}")
        with skipping(f"turn {number}"):
            for line in [*write_text(trace, is_coloured=is_coloured, lists_tokens=lists_tokens)]:
                print(line)  # the text is already escaped; print_text would escape the colours
            shown += 1
    if not shown:
        raise RequestError("no trace can be shown", hint=HINT)


def _write_page(traces: list[dict[str, Any]], options: argparse.Namespace) -> None:
    from constrained.model.trace.page import write_page

    page = write_page(traces)
    if options.output == "-" or (options.output is None and options.file == "-"):
        sys.stdout.write(page)
        return
    path = options.output or str(Path(options.file).with_suffix(".html"))
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as e:
        raise _name_failure(e, "-o", path) from e
    print_data(path)
