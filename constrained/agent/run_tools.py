"""The tools of a run: those in the prompt, hidden ones, and those that a search has found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from constrained.agent.search.tool_search import ToolSearch
from constrained.limits.isolated_call import Isolation, check_isolated
from constrained.prompt.tools.functions import FunctionTool, as_tool, find_tool, read_isolation
from constrained.prompt.tools.offer import read_offer
from grammars.turn import ToolCall

RunTools: TypeAlias = Sequence[Any] | Callable[[], Sequence[Any]]
"""The tools of a run, or a function that lists them before each turn."""


class RunToolset:
    """The tools of a run, which may change before each turn.

    Args:
        source: the tools of the prompt, or a function that lists them.
        hidden: tools that may be called but are not in the prompt.
        search: a search of further tools; None: there is none.
        isolate: the default limits of functions that run in separate processes.
        drop: leave out tools whose schemas cannot be enforced; False: they are an error.

    Attributes:
        prompt: the given tools, and the one that searches.
    """

    def __init__(
        self,
        source: RunTools,
        *,
        hidden: Sequence[Any],
        search: ToolSearch | None,
        isolate: bool | Isolation,
        drop: bool,
    ):
        self._source = source
        self._given_hidden = hidden
        self._search = search
        self._isolate = isolate
        self._drop = drop
        self._hidden = _isolate_all(hidden, isolate)
        self._found: list[Any] = []
        self._given: list[Any] = []
        self.prompt: list[Any] = []
        if search is not None:
            _isolate_all(search.tools, isolate)  # raises an error for tools that cannot be isolated
        self._read()

    @property
    def has_search(self) -> bool:
        """True if there is a search of further tools."""
        return self._search is not None

    @property
    def available(self) -> list[Any]:
        """The tools that the next turn may call: those of the prompt, hidden ones, found ones."""
        return [*self.prompt, *self._hidden, *self._found]

    def find_function(self, call: ToolCall) -> FunctionTool | None:
        """Returns the tool of a call; None: there is none, or it has no function to execute."""
        tool = find_tool(call.name, self.available)
        if tool is None or tool.function is None:
            return None
        return tool

    def begin_turn(self) -> None:
        """Reads the tools again, if they may have changed."""
        if callable(self._source):
            self._read()

    def find_hidden(self, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns the hidden tools of the next turn of a conversation, including those that the
        search has found."""
        if self._search is not None:
            self._found = _isolate_all(self._search.list_found(messages), self._isolate)
        return [*self._hidden, *self._found]

    def _read(self) -> None:
        """Reads the given tools, if they have changed."""
        given = self._source() if callable(self._source) else self._source
        is_list = isinstance(given, list | tuple)
        if is_list and self._given and list(given) == self._given:
            return
        # Raises an error, with a JSON pointer, for tools that cannot be offered.
        offer = read_offer(given, hidden=self._given_hidden, drop=self._drop)
        self._given = list(given)
        self.prompt = _isolate_all(given, self._isolate)  # signatures of functions are read once
        if self._search is not None:
            self._search.check_names(offer.names)
            self.prompt.append(self._search.tool)


def _isolate_all(tools: Sequence[Any], isolate: bool | Isolation) -> list[Any]:
    return [_isolate(as_tool(tool), isolate) for tool in tools]


def _isolate(tool: Any, isolate: bool | Isolation) -> Any:
    """Returns the tool with the limits of the run, unless it has its own."""
    if not isinstance(tool, FunctionTool) or tool.function is None:
        return tool
    isolation = tool.isolation or read_isolation(isolate)
    if isolation is not None:
        check_isolated(tool.function, tool.name)
    return replace(tool, isolation=isolation)
