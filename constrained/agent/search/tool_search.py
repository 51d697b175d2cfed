"""Tool search: hundreds of tools can be called without being in the prompt.

The prompt has one tool that searches. The tools that it finds are described in its result, and can
be called from then on. So the prompt only grows at its end, and the KV cache stays valid. Which
tools were found is read from the messages, so a conversation can be continued by any process.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from constrained.agent.search.signature_text import describe_tool
from constrained.agent.search.word_index import WordIndex
from constrained.errors import RequestError
from constrained.prompt.messages import join_text_parts, normalise
from constrained.prompt.tools.functions import FunctionTool, as_tool
from constrained.prompt.tools.shapes import Entry, drop_copies, read_entries
from grammars.errors import SchemaError, ToolError
from grammars.spelling.names import check_names

SEARCH_TOOLS = "/search_tools"
MAX_SEARCHED = 100_000
NAME = "search_tools"
DESCRIPTION = (
    "Finds further tools by what they do. Call it when no tool that you know fits. "
    "The tools that it finds can be called afterwards, with the parameters that it lists."
)
QUERY = "A few words that say what the tool has to do, such as 'weather forecast'."
NOTHING_FOUND = "No tool has these words. Search with other words, or answer without a tool."
# The weight of a word, by the field that it is in.
OF_NAME, OF_DESCRIPTION, OF_PARAMETER, OF_PARAMETER_TEXT = 2.0, 1.0, 0.5, 0.25

Rank: TypeAlias = Callable[[str], Sequence[str]]
"""The names of tools for a query, the best first."""


class ToolSearch:
    """Tools that a run can find and then call; its prompt has only a tool that searches for them.

    Make it once: it can be used by any number of runs, at the same time.

    Args:
        tools: the tools to search: functions, and all else that can be a tool.
        top: maximum number of tools that one search finds.
        rank: takes a query and returns the names of tools, best first; for embeddings, say.
            Default: BM25 over names, descriptions and parameters.
        name: the name of the tool that searches.
        description: what the model reads about it.

    Attributes:
        tools: the tools to search.
        tool: the tool that searches.
        top: see above.
        rank: see above; None: BM25.

    Raises:
        ToolError: one is not a tool, or two have the same name.
        RequestError: `top` is below 1.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        top: int = 5,
        rank: Rank | None = None,
        name: str = NAME,
        description: str = DESCRIPTION,
    ):
        if type(top) is not int or top < 1:
            raise RequestError(f"top is {top!r}, must be 1 or more", where=f"{SEARCH_TOOLS}/top")
        self.top, self.rank = top, rank
        entries = drop_copies(read_entries(tools, SEARCH_TOOLS, max_tools=MAX_SEARCHED))
        self.tools = tuple(as_tool(entry.given) for entry in entries)
        names = [entry.name for entry in entries]
        places = [entry.place for entry in entries]
        check_names([*names, name], [*places, SEARCH_TOOLS])
        self._places = dict(zip([*names, name], [*places, SEARCH_TOOLS], strict=True))
        self._entries = {entry.name: entry for entry in entries}
        self._names = names
        self._given = dict(zip(names, self.tools, strict=True))
        self._index: WordIndex | None = None
        if rank is None:
            self._index = WordIndex([list(_list_texts(entry)) for entry in entries])
        properties = {"query": {"type": "string", "description": QUERY}}
        schema = {"type": "object", "properties": properties, "required": ["query"]}
        self.tool = FunctionTool.from_schema(
            name, schema, self.search, description=description, read_only=True
        )

    def __repr__(self) -> str:
        return f"<ToolSearch {self.tool.name}: {len(self.tools)} tools, top {self.top}>"

    def search(self, query: str) -> dict[str, Any]:
        """Returns what the model reads as the result of a search: the tools found, best first, each
        with name, description and parameters; `refused` has those whose schemas cannot be enforced,
        which cannot be called.

        Args:
            query: words.

        Raises:
            ToolError: `rank` named a tool that does not exist.
        """
        found: list[dict[str, Any]] = []
        refused: dict[str, str] = {}
        for name in self.find(query):
            entry = self._entries[name]
            try:
                entry.lower()  # its schema can be enforced
            except SchemaError as error:
                refused[name] = str(error)
            else:
                about = entry.body.get("description")
                found.append(describe_tool(name, about, entry.schema))
        result: dict[str, Any] = {"tools": found}
        if refused:
            result["refused"] = refused
        if not found:
            result["note"] = NOTHING_FOUND
        return result

    def find(self, query: str) -> list[str]:
        """Returns the names of the tools that fit a query, best first, at most `top`.

        Args:
            query: words.
        """
        if self._index is not None:
            return [self._names[number] for number in self._index.rank(query)[: self.top]]
        assert self.rank is not None
        ranked = list(dict.fromkeys(self.rank(query)))[: self.top]
        for name in ranked:
            if name not in self._entries:
                hint = "Return names of the tools to search"
                raise ToolError(f"rank returned {name!r}, which is not a tool", hint=hint)
        return ranked

    def check_names(self, others: Sequence[str]) -> None:
        """Checks that the tools to search have other names than the offered tools.

        Args:
            others: the names of the offered tools.

        Raises:
            ToolError: a name is used twice; `where` is the tool to search.
        """
        hint = "Rename one of them, or offer it once"
        for other in others:
            if other in self._places:
                message = f"two tools are called {other!r}"
                raise ToolError(message, where=self._places[other], hint=hint)

    def list_found(self, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns the tools that searches of a conversation have found, in the order in which they
        were found first.

        Args:
            messages: the conversation, in OpenAI's form.

        Raises:
            TemplateError: the messages are not a conversation.
        """
        names: dict[str, None] = {}
        for content in self._list_results(messages):
            names.update(dict.fromkeys(_read_names(content)))
        return [self._given[name] for name in names if name in self._given]

    def _list_results(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
        """Yields the results of the searches."""
        called: dict[Any, Any] = {}  # the name of the last call of each id
        for message in normalise(messages):
            for call in message.get("tool_calls", ()):
                called.update(_read_call(call))
            if message["role"] != "tool":
                continue
            if called.get(message.get("tool_call_id")) == self.tool.name:
                yield join_text_parts(message.get("content"))


def read_search(given: Any) -> ToolSearch | None:
    """Reads the option `search_tools` of a run: a `ToolSearch`, or a list of tools."""
    if given is None or isinstance(given, ToolSearch):
        return given
    return ToolSearch(given)


def _read_call(call: Any) -> dict[str, Any]:
    """Returns the name of a call by its id; empty if the call has another shape."""
    if not isinstance(call, dict) or not isinstance(call.get("id"), str):
        return {}
    function = call.get("function")
    return {call["id"]: function.get("name")} if isinstance(function, dict) else {}


def _read_names(content: Any) -> list[str]:
    """Returns the names in the result of a search; none if it failed or was shortened."""
    try:
        result = json.loads(content)
    except (TypeError, ValueError, RecursionError):
        return []
    found = result.get("tools") if isinstance(result, dict) else None
    names: list[str] = []
    for tool in found if isinstance(found, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            names.append(tool["name"])
    return names


def _list_texts(entry: Entry) -> Iterator[tuple[str, float]]:
    """Yields the searched texts of a tool, with the weight of their words."""
    yield entry.name, OF_NAME
    yield str(entry.body.get("description") or ""), OF_DESCRIPTION
    waiting: list[Any] = [entry.schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            waiting += part.values()
            if isinstance(part.get("description"), str):
                yield part["description"], OF_PARAMETER_TEXT
            properties = part.get("properties")
            for name in properties if isinstance(properties, Mapping) else ():
                yield name, OF_PARAMETER
