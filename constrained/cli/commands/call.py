"""`constrained call`: answers one message."""

import argparse
import sys
from dataclasses import replace
from textwrap import shorten
from typing import TYPE_CHECKING

from constrained.cli import options as shared
from constrained.cli import request, tool_calls
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.input import read_text
from constrained.cli.terminal.output import print_json, print_notes
from constrained.cli.terminal.show import Screen, describe_call, follow, show_reply, wait
from constrained.cli.tool_calls import CallExecutor
from constrained.errors import RequestError
from constrained.limits.deadline import check_timeout

if TYPE_CHECKING:
    from constrained.agent.mcp.servers import McpServers
    from constrained.agent.model import Model
    from constrained.agent.search.tool_search import ToolSearch
    from constrained.model.call_options import CompiledTurnOptions
    from constrained.model.reply import Reply
    from constrained.prompt.job import Job
    from constrained.prompt.tools.execution import CallResult


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
    tool_calls.add_options(parser)
    request.add_options(parser)


def _run(options: argparse.Namespace) -> int:
    from constrained.model.confidence_policy import explain_unsure_calls
    from constrained.prompt.tools.functions import find_functions

    check_timeout(options.timeout)
    message = options.message
    if message == "-" == options.tools:
        hint = "Read the tools from a file"
        raise RequestError("both the message and --tools would be read from stdin", hint=hint)
    job = request.read_request(options)
    if message == "-":
        message = read_text("-", "MESSAGE").rstrip("\n")
    messages = [*shared.read_system(options), {"role": "user", "content": message}]
    job = replace(job, messages=messages)
    read = _read_answer if sys.stdin.isatty() and sys.stderr.isatty() else None
    executor = CallExecutor(read, approve_all=options.yes)
    with tool_calls.connect(options) as servers, request.load_model(options) as model:
        job = request.fit(job, model)
        answered = AnsweredCall(model, options)
        search = request.read_search(options, job, servers)
        if servers or search or find_functions(job.tools):
            reply = answered.run(job, servers, executor, search)
        else:
            reply = answered.generate(job)
            if reply.unsure_calls:
                print_notes([explain_unsure_calls(reply.unsure_calls)])
    if options.json:
        print_json(reply.to_json())
    elif not options.stream:
        show_reply(reply, Screen())
    if answered.lacks_calls:
        print_notes([request.NO_CALL])
    return ExitCode.CUT_OFF if reply.finish_reason == "length" else ExitCode.DONE


def _read_answer(prompt: str) -> str:
    """Reads a line from the terminal; stdout is only for the reply."""
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


class AnsweredCall:
    """Answers the message: in one turn, or in a run with tools that are executed.

    Attributes:
        lacks_calls: the last turn has no call, as is usual for small models with its prompt.
    """

    lacks_calls = False

    def __init__(self, model: "Model", options: argparse.Namespace):
        self._model = model
        self._options = options
        self._is_first = True

    def generate(self, job: "Job") -> "Reply":
        """Generates a turn; if it is shown while it is generated, it is printed here."""
        options, model = self._options, self._model
        turn = model.compile(job)
        if self._is_first:
            print_notes(request.describe(job, model, options, turn=turn))
            self._is_first = False
        if options.show_prompt:
            prompt = turn.prompt.text[-160:]
            print_notes([f"prompt: ...{prompt!r}", f"the reply begins {turn.state.start.words}"])
        limits: CompiledTurnOptions = {
            **request.read_choice_options(options, job, model),
            "max_tokens": request.find_limit(options.max_tokens, turn, model),
            "sampling": shared.read_sampling(options, model.sampling),
            "timeout": options.timeout,
            "stop": options.stop,
            "progress": True,
        }
        stream = model.stream_turn(turn, **limits)
        reply = follow(stream, Screen()) if options.stream else wait(stream)
        self.lacks_calls = turn.plan.hardly_calls and not reply.has_begun_calls
        return reply

    def run(
        self,
        job: "Job",
        servers: "McpServers | None",
        executor: CallExecutor,
        search: "ToolSearch | None",
    ) -> "Reply":
        """Executes searches and calls of servers and functions, until the model answers, or calls a
        tool that the user executes; returns the last turn."""
        from constrained.agent.finished_run import Reason
        from constrained.agent.judge import RunLimits
        from constrained.agent.loop import AgentLoop

        loop = AgentLoop(
            job.messages,
            [] if search else lambda: request.list_tools(job, servers),
            {"tool_choice": job.tool_choice, "drop_tools": job.drop_tools},
            limits=RunLimits(),
            search=search,
        )
        while True:
            turn = loop.prepare()
            reply = self.generate(
                replace(
                    job,
                    messages=turn.messages,
                    tools=turn.tools,
                    hidden_tools=turn.options.get("hidden_tools", ()),
                    tool_choice=turn.options["tool_choice"],
                    excluded_calls=turn.options.get("excluded_calls", ()),
                )
            )
            loop.take(reply)
            results: list[CallResult] = []
            for _, call in loop.open:
                results.append(executor.execute(call, loop.toolset.available))
                print_notes([f"{describe_call(call)} -> {shorten(results[-1].content, 200)}"])
            loop.answer(results)
            if loop.reason is not None:
                if loop.reason is not Reason.STOP:
                    print_notes([f"ended: {loop.reason} {loop.detail}".rstrip()])
                return reply
