"""Executes calls for a user at a terminal: asks before calls that change something, and asks the
questions of servers, all in the thread that reads the terminal."""

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from constrained.agent.actions import Verdict, aexecute_call
from constrained.agent.thread_call import ThreadCall
from constrained.cli.terminal.output import escape_controls, print_error
from constrained.cli.terminal.show import describe_call
from constrained.prompt.tools.call_result import CallResult, decline
from constrained.prompt.tools.functions import find_tool
from grammars.schema.lowering.lower import lower
from grammars.turn import ToolCall

if TYPE_CHECKING:
    from constrained.agent.mcp.elicitation import Elicitation

Read: TypeAlias = Callable[[str], str]
"""Shows a prompt, and returns the typed line."""
YES = ("y", "yes")
NO = ("", "n", "no")


class _Question:
    """A question that waits for the thread that reads the terminal."""

    def __init__(self, elicitation: "Elicitation"):
        self.elicitation = elicitation
        self.answer: Future[Mapping[str, Any] | bool | None] = Future()


class CallExecutor:
    """Executes calls, one after the other.

    Args:
        read: asks the user; None: there is no user, so calls that change something are declined,
            and so are questions of servers.
        approve_all: execute all calls without asking.
    """

    def __init__(self, read: Read | None, *, approve_all: bool):
        self._read = read
        self._approve_all = approve_all
        self._lock = threading.Lock()
        self._questions: queue.SimpleQueue[_Question | None] | None = None  # of the current call

    def execute(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        """Returns the result of a call, or that it is declined; Ctrl-C cancels it."""
        tool = find_tool(call.name, tools)
        is_free = self._approve_all or (tool is not None and tool.read_only)
        if not is_free and (verdict := self._approve(call)) is not True:
            return decline(call, verdict)
        with ThreadPoolExecutor(1, thread_name_prefix="tool") as pool:
            running = ThreadCall(pool, partial(aexecute_call, call, tools))
            try:
                self._answer_until(running)
            except BaseException:
                running.cancel()
                raise
            return running.result()

    def _approve(self, call: ToolCall) -> Verdict:
        if self._read is None:
            return "it may change something, and nobody can be asked"
        shown = escape_controls(describe_call(call))
        line = self._read(f"run {shown}? y/N, or why not: ").strip()
        if line.lower() in YES:
            return True
        return False if line.lower() in NO else line

    def _answer_until(self, running: ThreadCall[CallResult]) -> None:
        """Asks the user the questions of servers, until a call is complete."""
        self._questions = questions = queue.SimpleQueue[_Question | None]()
        running.call_back(lambda: questions.put(None))
        try:
            while (question := questions.get()) is not None:
                answer = None
                try:
                    answer = self._ask(question.elicitation)
                finally:
                    question.answer.set_result(answer)
        finally:
            with self._lock:
                self._questions = None
            while not questions.empty():  # these will not be answered any more
                if (question := questions.get()) is not None:
                    question.answer.set_result(None)

    def elicit(self, question: "Elicitation") -> Mapping[str, Any] | bool | None:
        """Answers a question of a server; called in a thread of the connection."""
        waiting = _Question(question)
        with self._lock:
            if self._questions is None or self._read is None:
                return None
            self._questions.put(waiting)
        return waiting.answer.result()

    def _ask(self, question: "Elicitation") -> Mapping[str, Any] | bool | None:
        assert self._read is not None
        about = escape_controls(f"{question.server} asks: {question.message}")
        if question.url is not None:
            line = self._read(f"{about} Did you visit {escape_controls(question.url)}? y/N: ")
            return line.strip().lower() in YES
        content: dict[str, Any] = {}
        required = question.schema.get("required", ())
        for name, schema in question.schema.get("properties", {}).items():
            prompt = escape_controls(f"({name}{_describe(schema)}): ")
            value = self._ask_for_value(f"{about} {prompt}", schema)
            if value is not None:
                content[name] = value
            elif name in required:
                return None  # an empty line declines
        if not content and not question.schema.get("properties"):
            return self._read(f"{about} y/N: ").strip().lower() in YES
        return content

    def _ask_for_value(self, prompt: str, schema: Mapping[str, Any]) -> Any:
        """Asks the user until the value fits; None for an empty line, if there is no default."""
        assert self._read is not None
        while line := self._read(prompt).strip():
            value = _read_value(line, schema)
            if not (errors := lower(dict(schema), only_object=False).find_errors(value)):
                return value
            print_error(errors[0].message)
        return schema.get("default")


def _describe(schema: Mapping[str, Any]) -> str:
    """Describes the allowed values, in a few words."""
    text = ""
    if (choices := schema.get("enum")) is not None:
        text += ": " + ", ".join(map(str, choices))
    elif schema.get("type", "string") != "string":
        text += f": {schema['type']}"
    if "default" in schema:
        text += f", else {schema['default']}"
    return text


def _read_value(line: str, schema: Mapping[str, Any]) -> Any:
    """Converts a typed line to a value."""
    match schema.get("type"):
        case "boolean" if line.lower() in (*YES, *NO):
            return line.lower() in YES
        case "array":
            return [part.strip() for part in line.split(",")]
        case "boolean" | "integer" | "number":
            try:
                return json.loads(line)
            except ValueError:
                return line  # it does not fit the schema, which is reported to the user
        case _:
            return line
