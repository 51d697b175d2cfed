"""Executes calls for a user at a terminal: asks before calls that change something."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from constrained.agent.actions import Verdict, aexecute_call
from constrained.cli.terminal.output import escape_controls
from constrained.cli.terminal.show import describe_call
from constrained.prompt.tools.call_result import CallResult, decline
from constrained.prompt.tools.functions import find_tool
from grammars.turn import ToolCall

Read: TypeAlias = Callable[[str], str]
"""Shows a prompt, and returns the typed line."""
YES = ("y", "yes")
NO = ("", "n", "no")


class CallExecutor:
    """Executes calls, one after the other.

    Args:
        read: asks the user; None: there is no user, so calls that change something are declined.
        approve_all: execute all calls without asking.
    """

    def __init__(self, read: Read | None, *, approve_all: bool):
        self._read = read
        self._approve_all = approve_all

    def execute(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        """Returns the result of a call, or that it is declined; Ctrl-C cancels it."""
        tool = find_tool(call.name, tools)
        is_free = self._approve_all or (tool is not None and tool.read_only)
        if not is_free and (verdict := self._approve(call)) is not True:
            return decline(call, verdict)
        return asyncio.run(aexecute_call(call, tools))

    def _approve(self, call: ToolCall) -> Verdict:
        if self._read is None:
            return "it may change something, and nobody can be asked"
        shown = escape_controls(describe_call(call))
        line = self._read(f"run {shown}? y/N, or why not: ").strip()
        if line.lower() in YES:
            return True
        return False if line.lower() in NO else line
