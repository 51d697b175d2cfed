"""`constrained chat`: a conversation, line by line."""

import argparse
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Unpack

from constrained.cli import options as shared
from constrained.cli import request, tool_calls
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.output import print_error, print_notes
from constrained.cli.terminal.show import Screen, follow
from constrained.cli.tool_calls import CallExecutor
from constrained.errors import RequestError
from grammars.errors import Error
from grammars.turn import ToolCall

if TYPE_CHECKING:
    from constrained.agent.mcp.servers import McpServers
    from constrained.agent.model import Model
    from constrained.agent.search.tool_search import ToolSearch
    from constrained.model.call_options import CompiledTurnOptions, TurnOptions
    from constrained.prompt.job import Job
    from constrained.prompt.tools.functions import FunctionTool

HELP = """\
/tools  list the tools with their parameters
/clear  forget the conversation, except the system message
/undo   forget the last message and its reply
/help   show this
/exit   end the chat, like Ctrl-D
Ctrl-C cancels the current turn.
Pasted lines are one message. Three quotes (\"\"\") begin and end a message of several lines.
To send a line that begins with "/", put a space before it.
When the model calls a tool, type the result, text or JSON; an empty line means no result.
Tools of MCP servers and of Python files (--tools FILE.py) are executed; those that may change
something need your consent, unless the chat was started with --yes."""
QUOTES = '"""'
TOGETHER = 0.03  # seconds between two lines of a paste
SKIPPED = '{"error": "not executed: the user gives no result"}'


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run, json=False)
    parser.add_argument("--system", metavar="TEXT", help="system message")
    tool_calls.add_options(parser)
    request.add_options(parser)


def _run(options: argparse.Namespace) -> int:
    job = replace(request.read_request(options), messages=shared.read_system(options))
    lines = Lines()
    executor = CallExecutor(lines.read, approve_all=options.yes)
    with tool_calls.connect(options) as servers, request.load_model(options) as model:
        job = request.fit(job, model)
        print_notes(request.describe(job, model, options))
        search = request.read_search(options, job, servers)
        session = ChatSession(
            model,
            job,
            lines=lines,
            servers=servers,
            executor=executor,
            search=search,
            choose=partial(request.read_choice_options, options),
            max_reply_tokens=options.max_tokens,
            sampling=shared.read_sampling(options, model.sampling),
            stop=options.stop,
            progress=True,
        )
        return session.run()


class ChatSession:
    """A conversation with a model; the user's messages come from stdin.

    Args:
        job: the options of each turn; its messages begin the conversation.
        servers: MCP servers, whose tools are offered, too.
        executor: executes the calls of these tools.
        search: a search of tools that are not in the prompt; None: all tools are in the prompt.
        choose: returns the options by which the turn of a job is chosen.
        max_reply_tokens: the maximum number of tokens of a reply; None: what fits into the context.
        options: of the generation, as in `Model.stream_turn`.
    """

    def __init__(
        self,
        model: "Model",
        job: "Job",
        *,
        lines: "Lines | None" = None,
        servers: "McpServers | None" = None,
        executor: CallExecutor | None = None,
        search: "ToolSearch | None" = None,
        choose: "Callable[[Job, Model], CompiledTurnOptions] | None" = None,
        max_reply_tokens: int | None,
        **options: "Unpack[TurnOptions]",
    ):
        from constrained.prompt.tools.offer import read_offer

        self._model = model
        self._max_reply_tokens = max_reply_tokens
        self._job = job
        self._options = options
        self._lines = lines or Lines()
        self._servers = servers
        self._search = search
        self._choose = choose
        self._executor = executor or CallExecutor(self._lines.read, approve_all=False)
        self._screen = Screen()
        self._messages: list[Mapping[str, Any]] = []  # after those of the job
        self._has_refused = False  # True after a refused line
        self._has_explained = False  # True once it was said that small models hardly call
        self._starts: list[int] = []  # the indexes in them of the user's messages that begin a turn
        # The tools that the user knows are not offered.
        self._refused = {refusal.name for refusal in read_offer(job.tools).refused}

    def run(self) -> ExitCode:
        """Continues until the user ends it or there are no more lines. If the lines are not typed,
        the exit code says whether all were answered."""
        if self._lines.is_typed:
            self._screen.say("/help lists the commands, /exit ends the chat")
        with suppress(EOFError):
            while (line := self._read_message()) != "/exit":
                if line.startswith("/"):
                    self._run_command(line)
                elif line:
                    self._take_turn(line)
        if self._has_refused and not self._lines.is_typed:
            return ExitCode.NEGATIVE
        return ExitCode.DONE

    def _refuse(self, why: str) -> None:
        self._has_refused = True
        print_error(why)

    def _read_message(self) -> str:
        """Returns what the user says, or a command."""
        while True:
            try:
                text = self._lines.read("> ").rstrip()
                return self._read_quoted(text) if text.startswith(QUOTES) else text
            except RequestError as e:
                self._refuse(str(e))
            except KeyboardInterrupt:
                if not self._lines.is_typed:
                    raise
                self._screen.say("(/exit or Ctrl-D ends the chat)")

    def _read_quoted(self, text: str) -> str:
        """Returns a message in three quotes, of which the beginning has been read. The end of stdin
        ends it, too."""
        text = text.removeprefix(QUOTES)
        with suppress(EOFError):
            while not text.endswith(QUOTES):
                text = f"{text}\n{self._lines.read('... ').rstrip()}"
        return text.removesuffix(QUOTES).strip("\n")

    def _show_tools(self) -> None:
        from constrained.agent.search.signature_text import describe_parameters
        from constrained.prompt.tools.shapes import read_entries

        entries = read_entries(request.list_tools(self._job, self._servers))
        for entry in entries:
            description = " ".join(str(entry.body.get("description") or "").split())
            self._screen.say(f"{entry.name}: {description}".removesuffix(": "))
            for name, described in describe_parameters(entry.schema).items():
                self._screen.say(f"    {name}: {described}")
        if not entries:
            self._screen.say("(there are no tools: --tools FILE, --mcp SERVER)")

    def _run_command(self, command: str) -> None:
        match command:
            case "/help":
                self._screen.say(HELP)
            case "/tools":
                self._show_tools()
            case "/clear":
                self._messages.clear()
                self._starts.clear()
                self._screen.say("(forgotten)")
            case "/undo" if self._starts:
                start = self._starts.pop()
                self._screen.say(f"(undone: {shorten(self._messages[start]['content'], 60)})")
                del self._messages[start:]
            case "/undo":
                self._screen.say("(there is nothing to undo)")
            case _:
                hint = "See /help; to send it, put a space before it"
                self._refuse(f"{shorten(command, 60)} is not a command. {hint}")

    def _take_turn(self, text: str) -> None:
        """Answers one message of the user; drops the message if that fails or is cancelled."""
        start = len(self._messages)
        self._messages.append({"role": "user", "content": text})
        try:
            self._answer()
        except Error as e:
            del self._messages[start:]
            self._refuse(str(e))
        except KeyboardInterrupt:
            if not self._lines.is_typed:
                raise
            del self._messages[start:]
            self._screen.say("(cancelled)")
        else:
            self._starts.append(start)

    def _answer(self) -> None:
        """Generates and prints turns, and gets the results of their calls, until a turn has no
        calls."""
        from constrained.model.confidence_policy import explain_unsure_calls
        from constrained.prompt.tools.functions import find_functions

        job = self._job
        while True:
            messages = [*self._job.messages, *self._messages]
            tools = request.list_tools(self._job, self._servers)
            own = find_functions(tools)
            hidden: list[Any] = []
            if self._search is not None:
                tools = [self._search.tool]
                hidden = self._search.list_found(messages)
                own = [self._search.tool, *own]
            job = replace(job, messages=messages, tools=tools, hidden_tools=hidden)
            turn = self._model.compile(job)
            for refusal in turn.refused:
                if refusal.name not in self._refused:
                    self._refused.add(refusal.name)
                    print_notes([str(refusal)])
            limit = request.find_limit(self._max_reply_tokens, turn, self._model)
            options: CompiledTurnOptions = {**self._options}
            options["max_tokens"] = limit
            if self._choose is not None:
                options |= self._choose(job, self._model)
            reply = follow(self._model.stream_turn(turn, **options), self._screen)
            if turn.plan.hardly_calls and not reply.has_begun_calls and not self._has_explained:
                self._has_explained = True
                print_notes([request.NO_CALL])
            if reply.unsure_calls:
                self._screen.say(f"({explain_unsure_calls(reply.unsure_calls)})")
            if reply.finish_reason == "length":
                # A call that ran out of tokens is removed instead of executed: templates need a
                # result for each call.
                reply = replace(reply, calls=())
            self._messages.append(reply.message())
            if not reply.calls:
                return
            self._messages += [self._find_result(call, own) for call in reply.calls]
            if job.tool_choice != "none":  # a call is required once: else it would never answer
                job = replace(job, tool_choice="auto")

    def _find_result(self, call: ToolCall, own: Sequence["FunctionTool"]) -> dict[str, Any]:
        """Returns the message with the result of a call: executed, or typed by the user."""
        if any(tool.name == call.name for tool in own):
            content = self._executor.execute(call, own).content
            self._screen.say(f"-> {shorten(content, 200)}")
        else:
            content = self._lines.read(f"result of {call.name}: ").strip() or SKIPPED
        return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}


class Lines:
    """Lines of stdin. At a terminal they can be edited, and the arrow keys recall earlier ones.

    Attributes:
        is_typed: both stdin and stdout are terminals, so a user sees prompts and can interrupt.
    """

    def __init__(self) -> None:
        self.is_typed = sys.stdin.isatty() and sys.stdout.isatty()
        if self.is_typed:
            with suppress(ImportError):  # as on Windows, whose terminals edit lines themselves
                import readline  # `input` edits with it

                # Python turns this off. The lines of a paste are then one text.
                readline.parse_and_bind("set enable-bracketed-paste on")

    def read(self, prompt: str) -> str:
        """Reads the next line, without its end; at a terminal also the lines that come with it, as
        in a paste.

        Raises:
            EOFError: there are no more.
            RequestError: it is not UTF-8, or not in the terminal's encoding.
        """
        try:
            if self.is_typed:
                return _ask(prompt)
            line = sys.stdin.buffer.readline()  # decoded alone, so that a bad line affects no other
            if not line:
                raise EOFError
            return line.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as e:
            raise RequestError(f"the line is not {e.encoding.upper()}: {e.reason}") from e


def _ask(prompt: str) -> str:
    try:
        text = input(prompt)
        while _has_more():
            text += f"\n{input()}"
        return text
    except (EOFError, KeyboardInterrupt):
        print()  # ends the line of the prompt
        raise


def _has_more() -> bool:
    """Returns whether more was typed already, or pasted at a terminal that does not mark it."""
    if sys.platform == "win32":
        return False
    return bool(select.select([sys.stdin], [], [], TOGETHER)[0])
