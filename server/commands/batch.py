"""`constrained batch`: executes a file of requests without HTTP."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from constrained.cli import options as shared
from constrained.cli import request
from constrained.cli.declared import complete
from constrained.cli.terminal.input import read_lines
from constrained.cli.terminal.output import print_error, print_notes
from constrained.engine.model_files.local_models import name_model
from constrained.engine.options import read_options
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.errors.own_packages import install_command
from constrained.limits.deadline import check_timeout
from server.commands.embedding_options import add_embedding_options, find_embedding_service

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from server.hosting.batches.batch_input import BatchLine, LineResult

SEQUENCES = 4  # as many as `serve` has
FAILED = 1  # a line has failed
UNUSABLE = 2  # the input has lines that are no requests
OF_A_LINE = {"max_tokens": "-n", "stop": "--stop", "reasoning": "--reasoning"} | {
    "chat_template_kwargs": "--chat-template-kwargs"
}
"""Options that other commands have for their one request."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run, json=False)
    help = "JSON Lines with custom_id, method, url and body; -: stdin"
    parser.add_argument("file", metavar="FILE", help=help)
    help = "new file for the results, one per line; default: stdout"
    parser.add_argument("-o", "--output", metavar="OUT", help=help)
    help = "continue OUT: skip requests whose custom_id is already in it"
    parser.add_argument("--resume", action="store_true", help=help)
    help = "limit for each request; default: none"
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help=help)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser, sequences=SEQUENCES)
    shared.add_sampling_options(parser)
    add_embedding_options(parser)
    parser.set_defaults(unset={name: parser.get_default(name) for name in OF_A_LINE})


def _run(options: argparse.Namespace) -> int:
    _check(options)
    try:
        from server.app import make_routes  # noqa: F401  fails without the extra
        from server.hosting.batches import batch_input
    except ModuleNotFoundError as error:
        hint = f"Run: {install_command('server')}"
        raise RequestError(f"a batch needs {error.name}", hint=hint) from error
    read = batch_input.read_lines(read_lines(options.file, "FILE"), max_lines=sys.maxsize)
    if read.faults:
        for fault in read.faults:
            print_error(str(fault))
        return UNUSABLE
    if options.embedding_model is None:
        _refuse_embeddings(read.lines)
    with _open_output(options) as (file, done):
        waiting = [line for line in read.lines if line.custom_id not in done]
        results = _Results(file, total=len(read.lines), earlier=[*done.values()])
        if waiting:
            _carry_out(waiting, options, results)
            results.close()
    return FAILED if results.failed else 0


def _check(options: argparse.Namespace) -> None:
    """Refuses options that mean nothing, before anything is loaded.

    Raises:
        RequestError: there is one.
    """
    check_timeout(options.timeout)
    for name, option in OF_A_LINE.items():
        if getattr(options, name) != options.unset[name]:
            message = f"{option} belongs to a request: write it in the body of each line"
            raise RequestError(message, where=f"/{name}")
    if options.resume and options.output is None:
        raise RequestError("--resume continues a file: name it with -o", where="/resume")
    shared.read_sampling(options, Sampling())
    complete(options)
    shared.choose_sequences(options, SEQUENCES)
    read_options(shared.read_engine_options(options))


def _refuse_embeddings(lines: Sequence["BatchLine"]) -> None:
    """Refuses lines that ask for embeddings.

    Raises:
        RequestError: there is one.
    """
    from server.hosting.batches.batch_input import EMBEDDINGS

    for line in lines:
        if line.url == EMBEDDINGS:
            message = f"line {line.number}: there is no model for embeddings"
            hint = "Name it: --embedding-model FILE"
            raise RequestError(message, where="/embedding_model", hint=hint)


@contextmanager
def _open_output(options: argparse.Namespace) -> Iterator[tuple[BinaryIO, dict[str, bool]]]:
    """The file for the results, and the custom ids that it has already, each with whether its
    request was answered.

    Raises:
        RequestError: the file exists and shall not be continued, or it has other lines.
    """
    if options.output is None:
        yield sys.stdout.buffer, {}
        return
    path = Path(options.output)
    if path.exists() and not options.resume:
        hint = "Continue it with --resume, or name another file"
        raise RequestError(f"{path} already exists", where="/output", hint=hint)
    with path.open("r+b" if path.exists() else "xb") as file:
        done = _read_done(file, path) if file.readable() else {}
        yield file, done


def _read_done(file: BinaryIO, path: Path) -> dict[str, bool]:
    """Returns the custom ids of an earlier run, and whether each was answered; cuts off a last line
    that was not written to its end.

    Raises:
        RequestError: a line is no result.
    """
    done: dict[str, bool] = {}
    end = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        try:
            result = json.loads(line)
            done[result["custom_id"]] = (result["response"] or {}).get("status_code") == 200
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            hint = "Name the output of an earlier run with -o"
            raise RequestError(f"{path}, line {number}, is not a result", hint=hint) from None
    file.seek(end)
    file.truncate()
    return done


class _Results:
    """Writes results as they come, and on a terminal how many there are.

    Args:
        file: for the results.
        total: requests of the input.
        earlier: of each result that is there already, whether its request was answered.
    """

    def __init__(self, file: BinaryIO, *, total: int, earlier: Sequence[bool]):
        self._file = file
        self._total = total
        self._done = len(earlier)
        self.failed = earlier.count(False)

    def write(self, result: "LineResult") -> None:
        """Writes a result; a run that is killed loses none that is written."""
        self._file.write(result.encode())
        self._file.flush()
        self._done += 1
        if not result.is_complete:
            self.failed += 1
        self._show()

    def close(self) -> None:
        """The end of what is shown."""
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def _show(self) -> None:
        if sys.stderr.isatty():
            text = f"\r{self._done} of {self._total} requests, {self.failed} failed"
            print(text, end="", file=sys.stderr, flush=True)


def _carry_out(
    lines: Sequence["BatchLine"], options: argparse.Namespace, results: _Results
) -> None:
    """Executes lines, with the models that they need.

    Raises:
        Error: a model cannot be loaded.
    """
    import asyncio

    from starlette.datastructures import State

    from server.app import make_routes
    from server.hosting.batches.batch_input import EMBEDDINGS
    from server.models.served_models import ServedModels
    from server.settings import Settings
    from server.turns.service import Service

    settings = Settings(timeout=options.timeout)
    with ExitStack() as stack:
        embedding = find_embedding_service(options, settings)
        if embedding is not None:
            stack.callback(embedding.close)
            embedding.start(None)
            embedding.wait()
        models, places = ServedModels([], settings), SEQUENCES
        if any(line.url != EMBEDDINGS for line in lines):
            model = stack.enter_context(request.load_model(options))
            print_notes(model.notices)
            model.sampling = shared.read_sampling(options, model.sampling)
            path = shared.find_model(options)
            name = name_model(Path(path)) if path else "demo"
            service = Service(model, settings, name=name)
            models, places = ServedModels.of(service), model.engine.max_sequences
        stack.callback(models.readers.close)
        state = State({"models": models, "settings": settings, "embeddings": embedding})
        asyncio.run(_run_lines(make_routes(state), lines, results, places=places))


async def _run_lines(
    app: "ASGIApp", lines: Sequence["BatchLine"], results: _Results, *, places: int
) -> None:
    """Executes lines, this many at a time.

    Raises:
        Exception: an error that concerns no single line, such as a full disk.
    """
    from server.hosting.batches.line_runner import run_line
    from server.http.disconnects import do_together

    waiting = iter(lines)

    async def take_lines() -> None:
        for line in waiting:
            results.write(await run_line(app, line))

    await do_together(take_lines() for _ in range(places))
