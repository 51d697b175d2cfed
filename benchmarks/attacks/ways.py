"""The same costly pattern by each way on which a request can bring one."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import HELLO, MESSAGES, RESPONSES, chat, respond
from benchmarks.attacks.schemas import large_patterns
from grammars.schema.json_values import JsonObject

PATTERNS = 60
"""Each becomes 10 MB if somebody compiles it."""
CHAT = "/v1/chat/completions"


def _list_schemas(schema: JsonObject) -> Iterator[tuple[str, str, Any]]:
    """Names, paths and bodies of requests with a schema."""
    named = {"name": "x", "schema": schema}
    answer = {"type": "json_schema", "json_schema": named}
    yield "response_format", CHAT, chat(response_format=answer)
    text = {"format": {"type": "json_schema", **named}}
    yield "text.format", RESPONSES, respond(text=text)
    flat = {"type": "function", "name": "f", "parameters": schema}
    space = {"type": "namespace", "name": "n", "tools": [flat]}
    yield "a namespace", RESPONSES, respond(tools=[space], tool_choice="required")
    call = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}}
    tools = [{**flat, "defer_loading": True}]
    found = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": tools}
    searched = [*HELLO, call, found]
    yield "a search", RESPONSES, respond(input=searched, tools=[{"type": "tool_search"}])
    tool = {"name": "f", "input_schema": schema}
    yield "input_schema", MESSAGES, chat(tools=[tool], tool_choice={"type": "any"})
    output = {"type": "json_schema", "schema": schema}
    yield "output_format", MESSAGES, chat(output_format=output)
    options = {"stream": False, "options": {"num_predict": 8}}
    yield "format", "/api/chat", {**options, "messages": HELLO, "format": schema}
    function = {"type": "function", "function": {"name": "f", "parameters": schema}}
    called = {"tools": [function], "calls": [{"name": "f", "arguments": "{}"}]}
    yield "verdicts", "/playground/verdicts", called


def _list_expressions(expression: str) -> Iterator[tuple[str, str, Any]]:
    """The same with an expression."""
    yield "structured_outputs.regex", CHAT, chat(structured_outputs={"regex": expression})
    yield "grammar", CHAT, chat(grammar=f"start: /{expression}/")
    grammar = {"syntax": "regex", "definition": expression}
    custom = {"name": "f", "format": {"type": "grammar", "grammar": grammar}}
    tools = [{"type": "custom", "custom": custom}]
    yield "a custom tool", CHAT, chat(tools=tools, tool_choice="required")


def _list_ways() -> Iterator[Attack]:
    expression = "|".join(rf"\p{{L}}{{1,200}}x{number}" for number in range(PATTERNS))
    requests = [*_list_schemas(large_patterns(PATTERNS)), *_list_expressions(expression)]
    for name, path, body in requests:
        yield Attack(f"10 MB a pattern, by {name}", partial(dict, body), path=path)


WAYS = tuple(_list_ways())
