"""The same costly pattern by each way on which a request can bring one."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, Body
from benchmarks.attacks.schemas import large_patterns

PATTERNS = 60
"""Each becomes 10 MB if somebody compiles it."""
EXPRESSION = "|".join(rf"\p{{L}}{{1,200}}x{number}" for number in range(PATTERNS))
SAID = [{"role": "user", "content": "hello"}]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
Json = dict[str, Any]


def _in_a_function(schema: Json) -> Json:
    return {"type": "function", "function": {"name": "f", "parameters": schema}}


def _list_schemas(schema: Json) -> Iterator[tuple[str, str, Body]]:
    """Names, paths and bodies of requests with a schema."""
    named = {"name": "x", "schema": schema}
    chat: Json = {"messages": SAID, "max_tokens": 8}
    yield "structured_outputs.json", CHAT, {**chat, "structured_outputs": {"json": schema}}
    yield "json_schema", CHAT, {**chat, "json_schema": schema}
    response: Json = {"input": SAID, "max_output_tokens": 8}
    text = {"format": {"type": "json_schema", **named}}
    yield "text.format", RESPONSES, {**response, "text": text}
    flat = {"type": "function", "name": "f", "parameters": schema}
    space = {"type": "namespace", "name": "n", "tools": [flat]}
    yield "a namespace", RESPONSES, {**response, "tools": [space], "tool_choice": "required"}
    tool = {"name": "f", "input_schema": schema}
    yield "input_schema", MESSAGES, {**chat, "tools": [tool], "tool_choice": {"type": "any"}}
    yield "count_tokens", f"{MESSAGES}/count_tokens", {"messages": SAID, "tools": [tool]}
    output = {"type": "json_schema", "schema": schema}
    yield "output_format", MESSAGES, {**chat, "output_format": output}
    yield "output_config", MESSAGES, {**chat, "output_config": {"format": output}}
    ollama: Json = {"stream": False, "options": {"num_predict": 8}}
    yield "format", "/api/chat", {**ollama, "messages": SAID, "format": schema}
    yield "format of a prompt", "/api/generate", {**ollama, "prompt": "x", "format": schema}
    tools = {"tools": [_in_a_function(schema)], "tool_choice": "required"}
    yield "tools of Ollama", "/api/chat", {**ollama, "messages": SAID, **tools}
    yield "apply-template", "/apply-template", {"messages": SAID, **tools}
    inspected = {"format": "hermes", "tools": [_in_a_function(schema)], "text": "<tool_call>\n{"}
    yield "the workbench", "/playground/inspect", inspected


def _list_expressions(expression: str) -> Iterator[tuple[str, str, Body]]:
    """The same with an expression."""
    chat: Json = {"messages": SAID, "max_tokens": 8}
    yield "structured_outputs.regex", CHAT, {**chat, "structured_outputs": {"regex": expression}}
    lark = f"start: /{expression}/"
    yield "regex", CHAT, {**chat, "regex": expression}
    yield "grammar", CHAT, {**chat, "grammar": lark}
    for syntax, definition in (("regex", expression), ("lark", lark)):
        grammar = {"syntax": syntax, "definition": definition}
        custom = {"name": "f", "format": {"type": "grammar", "grammar": grammar}}
        tools = {"tools": [{"type": "custom", "custom": custom}], "tool_choice": "required"}
        yield f"a custom tool, {syntax}", CHAT, {**chat, **tools}


def _list_ways() -> Iterator[Attack]:
    requests = [*_list_schemas(large_patterns(PATTERNS)), *_list_expressions(EXPRESSION)]
    for name, path, body in requests:
        yield Attack(f"10 MB a pattern, by {name}", partial(dict, body), path=path)


WAYS = tuple(_list_ways())
