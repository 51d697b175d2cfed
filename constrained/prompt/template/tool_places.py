"""Where a chat template reads the tools if it reads no variable `tools`; found by rendering
probes."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import nodes

from constrained.prompt.messages import copy_json

PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "probe_of_a_tool",
        "description": "A probe",
        "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}},
    },
}
_OF_REQUESTS = frozenset(
    {
        "allowed_tools",
        "function_call",
        "max_tool_calls",
        "parallel_tool_calls",
        "tool_call_id",
        "tool_calls",
        "tool_choice",
    }
)
"""Fields of requests and messages about tools: a template that reads one by its name expects its
value, and no list of tools."""
Message = dict[str, Any]
RenderProbe = Callable[[list[Message], dict[str, Any]], str]
"""Renders messages with variables; "": the template refuses them."""


@dataclass(frozen=True)
class ToolPlace:
    """A variable, or a field of the first system message, in which a template reads tools."""

    name: str
    is_field: bool
    as_text: bool

    def fill(
        self, tools: Sequence[Any], messages: list[Message], variables: dict[str, Any]
    ) -> None:
        """Puts tools into the variables or messages. A field that the client has set stays."""
        given: Any = copy_json(tools)
        if self.as_text:
            # Variables have the layout of llama.cpp; Phi-4-mini's field has one line.
            given = json.dumps(tools, ensure_ascii=False, indent=None if self.is_field else 2)
        if not self.is_field:
            variables[self.name] = given
            return
        if messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": ""})
        messages[0].setdefault(self.name, given)


def find_places(
    tree: nodes.Template, variables: Collection[str], render: RenderProbe
) -> Iterator[ToolPlace]:
    """Yields the places where a template writes the tools that it finds there, in its order: the
    `xml_tools` of SmolLM3, the field `tools` of Phi-4-mini's system message."""
    writes_any = _writes(ToolPlace("probe_of_a_field", is_field=True, as_text=True), render)
    for name, is_field in dict.fromkeys(_list_names(tree, variables)):
        if is_field and writes_any:
            continue
        for as_text in (False, True):
            place = ToolPlace(name, is_field, as_text)
            if _writes(place, render):
                yield place
                break


def _list_names(tree: nodes.Template, variables: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yields names that may be of tools, and whether each is that of a field."""
    for node in tree.find_all((nodes.Name, nodes.Getattr, nodes.Const)):
        match node:
            case nodes.Name(name=name) if name in variables:
                is_field = False
            case nodes.Getattr(attr=name) | nodes.Const(value=str(name)) if name.isidentifier():
                is_field = True
            case _:
                continue
        if ("tool" in name or "function" in name) and name not in _OF_REQUESTS:
            yield name, is_field


def _writes(place: ToolPlace, render: RenderProbe) -> bool:
    """Returns whether the template writes tools in this place, and not as code of Python."""
    messages: list[Message] = [{"role": "user", "content": "Hello"}]
    variables: dict[str, Any] = {}
    place.fill([PROBE_TOOL], messages, variables)
    text = render(messages, variables)
    return PROBE_TOOL["function"]["name"] in text and str([PROBE_TOOL]) not in text
