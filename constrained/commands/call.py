"""`constrained call`: answers one message."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from constrained.commands import options as shared
from constrained.commands import request, trace
from constrained.deadline import check_timeout
from constrained.errors import RequestError
from constrained.terminal.exit_codes import ExitCode
from constrained.terminal.input import read_text
from constrained.terminal.output import print_json, print_notes
from constrained.terminal.show import Screen, follow, show_reply, wait

if TYPE_CHECKING:
    from constrained.model.call_options import TurnOptions
    from constrained.reply import Reply


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    parser.add_argument("message", help="what the user says; -: stdin")
    parser.add_argument("--system", metavar="TEXT", help="system message")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the reply as JSON")
    output.add_argument("--stream", action="store_true", help="print the reply as it is generated")
    parser.add_argument(
        "--show-prompt", action="store_true", help="print the end of the prompt first"
    )
    help = "fail if the reply takes longer; default: no limit"
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help=help)
    trace.add_option(parser)
    request.add_options(parser)


def _run(options: argparse.Namespace) -> int:
    check_timeout(options.timeout)
    message = options.message
    if message == "-" == options.tools:
        hint = "Name a file for the tools"
        raise RequestError("both the message and --tools would be read from stdin", hint=hint)
    job = request.read_request(options)
    if message == "-":
        message = read_text("-", "MESSAGE").rstrip("\n")
    messages = [*shared.read_system(options), {"role": "user", "content": message}]
    job = replace(job, messages=messages)
    with request.load_model(options) as model:
        job = request.fit(job, model)
        turn = model.compile(job)
        print_notes(request.describe(job, model, options, turn=turn))
        if options.show_prompt:
            prompt = turn.prompt.text[-160:]
            print_notes([f"prompt: ...{prompt!r}", f"start: {turn.state.start.value}"])
        limits: TurnOptions = {
            "max_tokens": request.find_limit(options.max_tokens, turn, model),
            "sampling": shared.read_sampling(options, model.sampling),
            "timeout": options.timeout,
            "stop": options.stop,
            "trace": options.trace is not None,
            "progress": True,
        }
        if options.stream:
            reply = follow(model.stream_turn(turn, **limits), Screen())
            trace.save(reply, options.trace)
            return _find_code(reply)
        reply = wait(model.stream_turn(turn, **limits))
    trace.save(reply, options.trace)
    if options.json:
        print_json(reply.to_json())
    else:
        show_reply(reply, Screen())
    return _find_code(reply)


def _find_code(reply: "Reply") -> ExitCode:
    return ExitCode.CUT_OFF if reply.finish_reason == "length" else ExitCode.DONE
