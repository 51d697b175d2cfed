"""The tools of a recorded run. The record has them as JSON, from the start and after each change.

Functions are not recorded: they are given again when the run is resumed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from constrained.agent.run_tools import RunTools, list_tools
from constrained.agent.runs.record_form import write_tools
from constrained.agent.runs.store import EventKind, RecordedEvent, RecordedRun
from constrained.agent.search.tool_search import SEARCH_TOOLS, ToolSearch, read_search
from constrained.errors import CallError, RequestError
from constrained.prompt.tools.functions import FunctionTool, as_tool


@dataclass(frozen=True)
class ToolRoles:
    """The tools of a run, by role.

    Args:
        shown: the tools in the prompt, without the search; or a function that lists them.
        hidden: see `hidden_tools` of `Options`.
        search: see `search_tools` of `RunOptions`.
    """

    shown: RunTools
    hidden: Sequence[Any] = ()
    search: ToolSearch | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The tools as options of a run."""
        options: dict[str, Any] = {}
        if self.hidden:
            options["hidden_tools"] = self.hidden
        if self.search is not None:
            options["search_tools"] = self.search
        return options

    def list_hidden(self, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns the tools that may be called after these messages but are not in the prompt."""
        found: list[Any] = []
        if self.search is not None:
            found = self.search.list_found(messages)
        return [*self.hidden, *found]

    @property
    def repeatable(self) -> list[Any]:
        """All tools whose calls can be repeated; a search by a function of the user cannot."""
        tools = [*list_tools(self.shown), *self.hidden]
        if self.search is not None:
            tools += self.search.tools
            if self.search.rank is None:
                tools.append(self.search.tool)
        return tools


def write_run_tools(tools: RunTools, options: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the tools of a run for a record; some of them are among its options."""
    written: dict[str, Any] = {
        "tools": write_tools(list_tools(tools)),
        "hidden_tools": write_tools(options.get("hidden_tools", ())),
    }
    search = read_search(options.get("search_tools"))
    if search is not None:
        written["search"] = {
            "name": search.tool.name,
            "description": search.tool.description,
            "top": search.top,
            "has_rank": search.rank is not None,
            "tools": write_tools(search.tools),
        }
    return written


def find_entries(
    run: RecordedRun, events: Sequence[RecordedEvent], turn: int | None = None
) -> Sequence[Mapping[str, Any]]:
    """Returns the recorded tools in the prompt of a turn, without the one that searches. If `turn`
    is None, those of the last turn."""
    entries: Sequence[Mapping[str, Any]] = run.request["tools"]
    for event in events:
        if event.kind is EventKind.TOOLS and (turn is None or event.turn <= turn):
            entries = event.body["tools"]
    return entries


def list_entries(run: RecordedRun, events: Sequence[RecordedEvent] = ()) -> list[Mapping[str, Any]]:
    """Returns the records of all tools except the search.

    Args:
        events: of the run: the tools in the prompt are those of the last turn; (): of the first
            one.
    """
    entries = [*find_entries(run, events), *run.request.get("hidden_tools", ())]
    if "search" in run.request:
        entries += run.request["search"]["tools"]
    return entries


def read_run_tools(run: RecordedRun) -> ToolRoles:
    """Returns the tools that a run began with, from its record, for runs that do not call their
    functions."""
    return assign_tools(run, (), [read_tool(entry) for entry in list_entries(run)])


def read_tool(entry: Mapping[str, Any]) -> Any:
    """Returns a tool from a record; its function is not available, so its calls fail."""
    if not entry["has_function"]:
        return entry["tool"]
    function = entry["tool"]["function"]
    return FunctionTool.from_schema(
        function["name"],
        function["parameters"],
        _refuse,
        description=function.get("description", ""),
        strict=function.get("strict"),
    )


def _refuse(**arguments: Any) -> NoReturn:
    raise CallError("the tool does not exist any more", where="/name")


def find_name(entry: Mapping[str, Any]) -> str:
    """Returns the name of a tool in a record."""
    return entry["tool"]["function"]["name"]


def assign_tools(
    run: RecordedRun,
    events: Sequence[RecordedEvent],
    given: RunTools,
    search: ToolSearch | Sequence[Any] | None = None,
) -> ToolRoles:
    """Assigns the tools of a resumed run to their roles, as in its record.

    Args:
        run: the recorded run.
        events: of the run.
        given: tools, in any order; those that are not in the record are shown to the model. Or a
            function that lists the shown tools.
        search: of the run; None: it is made of the given tools.

    Raises:
        RequestError: a tool of the run is missing, or no longer has a function.
    """
    anew = read_search(search)
    searched = [] if anew is None else list(anew.tools)
    listed = list_tools(given)
    check_tools(list_entries(run, events), [*listed, *searched])
    recorded = run.request.get("search")
    hidden_names = set(map(find_name, run.request.get("hidden_tools", ())))
    searched_names: set[str] = set()
    if recorded is not None and anew is None:
        searched_names.update(map(find_name, recorded["tools"]))
    shown: list[Any] = []
    hidden: list[Any] = []
    for tool in listed:
        name = _read_name(tool)
        if name in searched_names:
            searched.append(tool)
        elif name in hidden_names:
            hidden.append(tool)
        else:
            shown.append(tool)
    if recorded is not None and anew is None:
        anew = _search_as_recorded(recorded, searched)
    elif recorded is not None and anew is not None and anew.tool.name != recorded["name"]:
        message = f"the tool that searches was called {recorded['name']!r}"
        raise RequestError(message, where=SEARCH_TOOLS, hint="Give it that name")
    if callable(given):
        return ToolRoles(_without(given, {*hidden_names, *searched_names}), hidden, anew)
    return ToolRoles(shown, hidden, anew)


def _without(given: Callable[[], Sequence[Any]], names: Collection[str]) -> RunTools:
    """Wraps a function that lists tools: leaves out tools with these names."""
    if not names:
        return given

    def list_others() -> Sequence[Any]:
        return [tool for tool in given() if _read_name(tool) not in names]

    return list_others


def check_rank(run: RecordedRun, search: ToolSearch | Sequence[Any] | None) -> None:
    """Checks that the function of a tool search is given again.

    Raises:
        RequestError: the recorded run searched with `rank`, but none is given.
    """
    recorded = run.request.get("search")
    if recorded is None or not recorded["has_rank"]:
        return
    given = read_search(search)
    if given is None or given.rank is None:
        hint = "Give search_tools again, with its rank"
        where = f"{SEARCH_TOOLS}/rank"
        raise RequestError("functions are not in the record", where=where, hint=hint)


def _search_as_recorded(recorded: Mapping[str, Any], tools: Sequence[Any]) -> ToolSearch:
    rank = _find_nothing if recorded["has_rank"] else None
    return ToolSearch(
        tools,
        top=recorded["top"],
        rank=rank,
        name=recorded["name"],
        description=recorded["description"],
    )


def _find_nothing(query: str) -> Sequence[str]:
    """Replaces the user's function `rank` in a replay: the results of searches are recorded."""
    return ()


def check_tools(entries: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> None:
    """Checks that all tools of a run are given again.

    Args:
        entries: of the run, as `write_tools` has written them.
        tools: the given tools.

    Raises:
        RequestError: a tool is missing, or no longer has a function.
    """
    given: dict[str, bool] = {}
    for tool in map(as_tool, tools):
        given[_read_name(tool)] = isinstance(tool, FunctionTool) and tool.function is not None
    for entry in entries:
        name = find_name(entry)
        if name not in given:
            message = f"the run has the tool {name!r}, which is not given"
            raise RequestError(message, where="/tools", hint="Give the tools with which it began")
        if entry["has_function"] and not given[name]:
            raise RequestError(f"the tool {name!r} has no function", where="/tools")


def _read_name(tool: Any) -> str:
    (written,) = write_tools([tool])
    return find_name(written)
