"""`constrained runs`: resumes, replays, forks and exports recorded runs, and approves their
calls."""

import argparse
import importlib.util
import inspect
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli import options as shared
from constrained.cli import request
from constrained.cli.commands.mcp import connection
from constrained.cli.declared import complete
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.output import (
    print_data,
    print_json,
    print_notes,
    print_table,
    print_text,
)
from constrained.errors import RequestError

if TYPE_CHECKING:
    from constrained.agent.mcp.servers import McpServers
    from constrained.agent.run_tools import RunTools
    from constrained.agent.runs.store import ListedRun, RecordedRun, RunStore

FUNCTIONS = "a Python file whose functions (or those in its list TOOLS) are the tools of the run"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    actions = parser.add_subparsers(
        metavar="[list|show|resume|replay|fork|approve|export]", required=True
    )
    _add(actions, "list", "list the runs of a file", _list, one=False)
    _add(actions, "show", "show what happened in a run", _show)
    _add_resume(actions)
    replay = _add(
        actions, "replay", "replay a run without a model, and report what differs", _replay
    )
    help = f"{FUNCTIONS}; calls are checked against them, read-only ones are repeated"
    replay.add_argument("--functions", metavar="FILE.py", help=help)
    fork = _add(actions, "fork", "make a new run of the first turns of a run; print its id", _fork)
    fork.add_argument(
        "--step", type=int, metavar="N", required=True, help="number of turns to keep"
    )
    _add_approve(actions)
    export = _add(actions, "export", "print a run as a test", _export)
    help = "a pytest file, or rows for `constrained check`; default: pytest"
    export.add_argument(
        "--as", dest="form", choices=("pytest", "rows"), default="pytest", help=help
    )


def _add_resume(actions: Any) -> None:
    resume = _add(
        actions,
        "resume",
        "continue a run whose process ended, or that waits for a decision",
        _resume,
    )
    resume.add_argument("--functions", metavar="FILE.py", help=FUNCTIONS)
    connection.add_options(resume, approve=False)
    help = "repeat calls that had not finished when the process ended"
    resume.add_argument("--repeat-interrupted", action="store_true", help=help)
    resume.add_argument(
        "--max-steps", type=int, metavar="N", help="maximum number of turns of the run"
    )
    shared.add_model_options(resume)
    shared.add_tool_format(resume)
    shared.add_engine_options(resume)


def _add_approve(actions: Any) -> None:
    approve = _add(
        actions,
        "approve",
        "approve or decline the calls of a run that wait for a decision",
        _approve,
    )
    approve.add_argument(
        "--call", type=int, metavar="N", help="the number of the call in the turn, from 1"
    )
    help = "decline the call; TEXT tells the model why"
    approve.add_argument("--decline", metavar="TEXT", nargs="?", const="", help=help)


def _add(actions: Any, name: str, help: str, run: Any, *, one: bool = True) -> Any:
    parser = actions.add_parser(name, help=help)
    parser.set_defaults(run=run)
    parser.add_argument("record", metavar="FILE", help="the file in which runs are recorded")
    if one:
        help = "id of a run, or the beginning of an id; default: the newest"
        parser.add_argument("id", metavar="RUN", nargs="?", help=help)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _open(options: argparse.Namespace) -> "RunStore":
    from constrained.agent.runs.store import RunStore

    return RunStore(options.record, create=False)


def _find(
    store: "RunStore", options: argparse.Namespace, state: str | None = None
) -> "RecordedRun":
    """Finds the named run, or the newest one; with a state, the only run in that state.

    Raises:
        RequestError: there is none, or several.
    """
    if options.id is not None:
        return store.find(options.id)
    runs = [run for run in store.list_runs() if state in (None, run.state)]
    if not runs or (state is not None and len(runs) > 1):
        kind = f"run that is {state}" if state else "run"
        message = f"{options.record} has {len(runs) or 'no'} {kind}{'s' if runs else ''}"
        raise RequestError(message, hint="Name one, as `constrained runs list` shows them")
    return store.read_run(runs[-1])


def _list(options: argparse.Namespace) -> int:
    with _open(options) as store:
        rows = [_describe(store, listed) for listed in store.list_runs()]
    if options.json:
        print_json(rows)
    else:
        print_table(rows, right=("turns",))
    return ExitCode.DONE


def _describe(store: "RunStore", listed: "ListedRun") -> dict[str, Any]:
    """Returns a run as a row of a table; of one that is damaged, no more than that."""
    from constrained.agent.runs.store import EventKind
    from constrained.engine.files.stored import skipping

    row: dict[str, Any] = {
        "id": listed.id,
        "begun": None,
        "state": "damaged",
        "turns": None,
        "parent": None,
        "model": None,
    }
    with skipping(f"the run {listed.id!r}"):
        run = store.read_run(listed)
        replies = sum(event.kind is EventKind.REPLY for event in store.read_events(run.id))
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created))
        row |= {"begun": begun, "state": run.state, "turns": replies}
        row |= {"parent": run.parent, "model": run.request["model"]}
    return row


def _show(options: argparse.Namespace) -> int:
    with _open(options) as store:
        run = _find(store, options)
        events = store.read_events(run.id)
    if options.json:
        print_json({"run": vars(run), "events": [vars(event) for event in events]})
        return ExitCode.DONE
    print_text(f"run {run.id}, {run.state}, model {run.request['model']}")
    messages = run.request["messages"]
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for message in messages:
        print_text(f"{message['role']}: {message.get('content') or ''}")
    for event in events:
        if (line := _describe_event(event.kind.value, event.body)) is not None:
            print_text(f"{event.turn + 1:>3}  {line}")
    return ExitCode.DONE


def _describe_event(kind: str, body: Any) -> str | None:
    """Describes an event in a line; None: it has nothing to show."""
    call = body.get("call")
    shown = ""
    if call is not None:
        shown = f"{call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})"
    match kind:
        case "reply":
            reply = body["reply"]
            names = ", ".join(call["name"] for call in reply["calls"])
            return f"reply    {reply['content'] or names} ({reply['finish_reason']})"
        case "verdict":
            return f"decided  {shown}: {body['verdict']}"
        case "waiting":
            return f"waits    {shown}"
        case "begun":
            return f"begun    {shown}"
        case "result":
            result = body["result"]
            return f"result   {shown} -> {result['outcome']}: {result['content']}"
        case "end":
            return f"end      {body['reason']} {body['detail']}".rstrip()
        case _:
            return None


def _resume(options: argparse.Namespace) -> int:
    from constrained.agent.run_options import ResumeOptions

    with _open(options) as store:
        run = _find(store, options)
    if options.functions is None and not connection.has_servers(options):
        hint = "Give --functions, or --mcp for tools of MCP servers"
        raise RequestError("the tools of the run are not given", where="/tools", hint=hint)
    functions = _read_functions(options.functions, run)
    complete(options)
    given: ResumeOptions = {}
    if options.max_steps is not None:
        given["max_steps"] = options.max_steps
    if options.repeat_interrupted:
        given["on_interrupted"] = lambda call: True
    with connection.connect(options) as servers, request.load_model(options) as model:
        print_notes(model.notices)
        tools: RunTools = functions
        if servers is not None:
            tools = partial(_join_tools, functions, servers)
        ended = model.resume(options.record, run.id, tools, **given)
    if options.json:
        print_json({"reason": ended.reason, "detail": ended.detail, "content": ended.content})
        return ExitCode.DONE
    print_data(ended.content)
    waiting = ", ".join(f"{n}: {call!r}" for n, call in enumerate(ended.pending, 1))
    print_notes([f"ended: {ended.reason} {ended.detail} {waiting}".rstrip()])
    return ExitCode.DONE


def _join_tools(functions: Sequence[Any], servers: "McpServers") -> list[Any]:
    """Returns the functions of a file, and the current tools of servers."""
    return [*functions, *servers.tools()]


def _read_functions(path: str | None, run: "RecordedRun") -> list[Any]:
    """Returns the tools of a run: those of a file, if given, and recorded ones without a function.

    Raises:
        RequestError: the file cannot be imported.
    """
    from constrained.agent.runs.recorded_tools import find_name, list_entries
    from constrained.prompt.tools.functions import as_tool

    given = [] if path is None else _import_functions(path)
    found: dict[str, Any] = {}
    for tool in map(as_tool, given):
        found[tool.name] = tool
    tools: list[Any] = []
    for entry in list_entries(run):
        if (name := find_name(entry)) in found:
            tools.append(found[name])
        elif not entry["has_function"]:
            tools.append(entry["tool"])
    return tools


def _import_functions(path: str) -> Sequence[Any]:
    """Imports the functions that a file defines, or lists as TOOLS."""
    spec = importlib.util.spec_from_file_location("functions_of_run", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise RequestError(f"--functions: {path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as e:  # the file is the user's, and may raise any error
        message = f"--functions: {path!r} cannot be imported: {type(e).__name__}: {e}"
        raise RequestError(message) from e
    given = getattr(module, "TOOLS", None)
    if given is not None:
        return given
    own = [value for value in vars(module).values() if callable(value)]
    return [value for value in own if inspect.getmodule(value) is module]


def _replay(options: argparse.Namespace) -> int:
    from constrained.agent.runs.replay import replay

    with _open(options) as store:
        run = _find(store, options)
        events = store.read_events(run.id)
    tools = None if options.functions is None else _read_functions(options.functions, run)
    replayed = replay(run, events, tools)
    if options.json:
        differences = [vars(difference) for difference in replayed.differences]
        print_json({"messages": replayed.messages, "differences": differences})
    else:
        for difference in replayed.differences:
            place = f"turn {difference.turn + 1}"
            if difference.call is not None:
                place += f", call {difference.call + 1}"
            print_text(f"{place}: recorded {difference.recorded!r}, now {difference.now!r}")
        print_text(f"{len(replayed.differences)} differences")
    return ExitCode.NEGATIVE if replayed.differences else ExitCode.DONE


def _fork(options: argparse.Namespace) -> int:
    from constrained.agent.runs.recorded_run import fork

    with _open(options) as store:
        id = fork(store, _find(store, options), options.step)
    if options.json:
        print_json({"id": id})
    else:
        print_text(id)
    return ExitCode.DONE


def _approve(options: argparse.Namespace) -> int:
    from constrained.agent.finished_run import Reason
    from constrained.agent.runs.recorded_run import decide

    verdict: bool | str = True
    if options.decline is not None:
        verdict = options.decline or False
    number = None if options.call is None else options.call - 1
    with _open(options) as store:
        decided = decide(store, _find(store, options, Reason.WAITING), verdict, number=number)
    word = "approved" if verdict is True else "declined"
    if options.json:
        print_json([{"name": call.name, "arguments": call.arguments} for call in decided])
    else:
        for call in decided:
            print_text(f"{word} {call!r}")
    return ExitCode.DONE


def _export(options: argparse.Namespace) -> int:
    from constrained.agent.runs.export import export_rows, export_test

    with _open(options) as store:
        run = _find(store, options)
        events = store.read_events(run.id)
    if options.form == "pytest":
        print_data(export_test(run, events).rstrip("\n"))
    else:
        for row in export_rows(run, events):
            print_data(json.dumps(row, ensure_ascii=False))
    return ExitCode.DONE
