"""Good inputs, which are then damaged."""

import struct
from pathlib import Path

from grammars.schema.json_values import JsonObject

TEMPLATES = Path(__file__).parents[2] / "examples" / "templates"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1, "maximum": 5},
        "unit": {"enum": ["C", "F", None]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 3},
        "when": {"type": "string", "format": "date"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"tag": {"anyOf": [{"type": "string"}, {"const": 7}]}},
}
TREE: JsonObject = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "next": {"$ref": "#"}},
    "if": {"required": ["next"]},
    "then": {"required": ["value"]},
    "minProperties": 1,
    "patternProperties": {"^x-": {"not": {"type": "null"}}},
}
MIXED: JsonObject = {
    "oneOf": [
        {"type": "array", "prefixItems": [True], "contains": {"type": "integer"}},
        {"$ref": "#/$defs/place"},
    ],
    "allOf": [{"dependentRequired": {"days": ["when"]}}],
    "$defs": {"place": {**SCHEMA, "$id": "https://example.com/place"}},
    "unevaluatedProperties": False,
}
SCHEMAS = (SCHEMA, TREE, MIXED)

TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "weather", "description": "of a city", "parameters": SCHEMA},
}
CALL: JsonObject = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_123456789",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city": "Bonn"}'},
        }
    ],
}
MESSAGES: list[JsonObject] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "How is it?"}]},
    CALL,
    {"role": "tool", "tool_call_id": "call_123456789", "content": "12 C"},
    {"role": "user", "content": "And now?"},
]
CHAT: tuple[JsonObject, ...] = (
    {
        "model": "demo",
        "messages": MESSAGES,
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 90,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "logit_bias": {"65": -1},
    },
    {
        "messages": MESSAGES[:2],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        "n": 2,
        "logprobs": True,
        "top_logprobs": 2,
        "max_tokens": 90,
        "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": False},
    },
    {"messages": MESSAGES[1:2], "tools": [TOOL], "tool_choice": "required", "max_tokens": 90},
    {"messages": MESSAGES[1:2], "grammar": 'start: "a" | "b"', "max_tokens": 5},
    {"messages": MESSAGES[1:2], "structured_outputs": {"choice": ["yes", "no"]}},
    {"messages": [*MESSAGES[:2], {"role": "assistant", "content": "It"}], "max_tokens": 5}
    | {"continue_final_message": True},
)
RESPONSES: tuple[JsonObject, ...] = (
    {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "How is it?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {
                "type": "function_call",
                "call_id": "call_123456789",
                "name": "weather",
                "arguments": '{"city": "Bonn"}',
            },
            {"type": "function_call_output", "call_id": "call_123456789", "output": "12 C"},
        ],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}],
        "tool_choice": "auto",
        "max_output_tokens": 90,
        "reasoning": {"effort": "low", "summary": "auto"},
        "metadata": {"a": "b"},
    },
    {
        "input": "How is it?",
        "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
        "max_output_tokens": 90,
        "include": ["message.output_text.logprobs"],
        "store": False,
    },
)
ANTHROPIC: tuple[JsonObject, ...] = (
    {
        "model": "demo",
        "max_tokens": 90,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "How is it?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "weather",
                        "input": {"city": "B"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "12 C"}],
                        "is_error": False,
                    }
                ],
            },
        ],
        "tools": [{"name": "weather", "description": "d", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "metadata": {"user_id": "me"},
    },
)
REQUESTS: dict[str, tuple[JsonObject, ...]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": ANTHROPIC,
}

LARK = (
    'start: "a" b* | /[a-z]+/ ("," NUMBER)*\nb: "x" start "y"\nNUMBER: /[0-9]{1,3}/\n',
    'start: list\nlist: "[" (item ("," item)*)? "]"\nitem: list | STR\nSTR: "\\"" /[^"]*/ "\\""\n',
    'start: x\nx: %json {"type": "object", "properties": {"a": {"type": "integer"}}}\n',
    "start: BOTH\nBOTH: A & B\nA: /[a-c]+/\nB: /[b-d]+/\n%ignore /[ ]+/\n",
)
GBNF = (
    'root ::= "yes" | "no" item+\nitem ::= [a-z0-9_] | "(" root ")"\n',
    'root ::= obj\nobj ::= "{" ws (pair ("," ws pair)*)? "}"\n'
    'pair ::= "\\"" [^"\\\\]* "\\":" ws num\n'
    'num ::= "-"? [0-9]{1,4}\nws ::= [ \\t\\n]*\n',
)
REGEX = (r"[A-Z][a-z]{2,5}(-\d+)?", r"(foo|ba[rz])*\.\w+", r"\p{L}+ \S{3}|[^\x00-\x1f]?")
GRAMMAR_PIECES = (
    *("|", "(", ")", "*", "+", "?", "{1000}", "{2,}", "{0}", "[", "]", "/", '"', "::=", ":", "\n"),
    *(
        "start",
        "root",
        "%ignore",
        "%json {}",
        "%regex",
        "~",
        "&",
        "<[1]>",
        "<|im_end|>",
        "\\u{",
        "\\",
    ),
    *("(?=x)", "(?i)", "\\1", "\\p{Foo}", ".{1,100000}", "(a*)*", "[z-a]", "[[:alpha:]]", "$", "^"),
)

JINJA_PIECES = (
    *("{{", "}}", "{%", "%}", "{#", "-", "|", "(", ")", "[", "]", "\n"),
    *("{{ messages }}", "{{ tools | tojson }}", "{% for m in messages %}", "{% endfor %}"),
    *("{% if tools %}", "{% endif %}", "{% set x = namespace(a=1) %}", "{{ 9**9**9 }}"),
    *("{{ 'x' * 10**9 }}", "{{ range(10**9) | list }}", "{{ messages.__class__ }}", "{{ self }}"),
    *("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{{ raise_exception('no') }}"),
    *("{{ ''.format }}", "{{ '%1000000000d' % 1 }}", "{{ 'a'.join(messages) }}", "{{ x.y.z }}"),
    *("{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{{ cycler() }}"),
    *("{{ messages | map(attribute='x') | list }}", "{{ strftime_now('%Y') }}", "{% generation %}"),
    *("{{ (1, 2)[5] }}", "{{ messages[-1].content[::0] }}", "{{ 1 / 0 }}", "{{ none + 1 }}"),
)


def read_templates() -> list[str]:
    """Returns the chat templates of the examples."""
    return [path.read_text("utf-8") for path in sorted(TEMPLATES.glob("*.jinja"))]


def _write_text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def write_gguf() -> bytes:
    """Returns a GGUF file with metadata of all types, and without tensors."""
    values: list[tuple[str, int, bytes]] = [
        ("general.architecture", 8, _write_text("qwen3")),
        ("qwen3.block_count", 4, struct.pack("<I", 2)),
        ("qwen3.context_length", 4, struct.pack("<I", 512)),
        ("qwen3.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-6)),
        ("general.flag", 7, b"\1"),
        ("general.small", 1, b"\xff"),
        ("general.large", 12, struct.pack("<d", 0.5)),
        ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + _write_text("a") * 2),
        ("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, 2) + bytes(8)),
        ("tokenizer.chat_template", 8, _write_text("{{ messages }}")),
    ]
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values))
    for key, kind, value in values:
        data += _write_text(key) + struct.pack("<I", kind) + value
    return data
