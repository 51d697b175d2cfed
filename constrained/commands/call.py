"""`constrained call`: answers one message."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from constrained.commands import options as shared
from constrained.commands import request
from constrained.commands.output import print_json, print_notes, print_text
from constrained.commands.show import Screen, follow, show_reply
from constrained.deadline import check_timeout

if TYPE_CHECKING:
    from constrained.model.call_options import TurnOptions


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser("call", help="answer one message, with tools")
    parser.set_defaults(run=_run)
    parser.add_argument("message", help="what the user says")
    parser.add_argument("--system", metavar="TEXT", help="system message")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the reply as JSON")
    output.add_argument("--stream", action="store_true", help="print the reply as it comes")
    parser.add_argument("--show-prompt", action="store_true", help="print the prompt's tail first")
    help = "fail if the reply is not done after so long; the default is any time"
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help=help)
    request.add_options(parser)


def _run(options: argparse.Namespace) -> int:
    check_timeout(options.timeout)
    messages = [*shared.read_system(options), {"role": "user", "content": options.message}]
    job = replace(request.read_request(options), messages=messages)
    with request.load_model(options) as model:
        job = request.fit(job, model)
        turn = model.compile(job)
        print_notes(request.describe(job, model, options, turn=turn))
        if options.show_prompt:
            print_text(f"prompt: ...{turn.prompt.text[-160:]!r}\nstart: {turn.state.start.value}")
        limits: TurnOptions = {
            "max_tokens": options.max_tokens,
            "sampling": shared.read_sampling(options, model.sampling),
            "timeout": options.timeout,
            "stop": options.stop,
        }
        if options.stream:
            follow(model.stream_turn(turn, **limits), Screen())
            return 0
        reply = model.complete([turn], **limits)[0]
    if options.json:
        print_json(reply.to_json())
    else:
        show_reply(reply, Screen())
    return 0
