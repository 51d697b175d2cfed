"""Calls in spellings of other models, and the envelope that each is."""

from grammars.wire.envelopes import EnvelopeKind

ARGUMENTS = '{"city": "Paris"}'
STRING = '"{\\"city\\": \\"Paris\\"}"'
CALL = f'{{"name": "get_weather", "arguments": {ARGUMENTS}}}'
PARAMETER = '<parameter name="city">Paris</parameter>'
FENCE, TAG = EnvelopeKind.FENCE, EnvelopeKind.TAG
OBJECT, LIST, FUNCTION = EnvelopeKind.OBJECT, EnvelopeKind.LIST, EnvelopeKind.FUNCTION


ENVELOPES: dict[str, tuple[EnvelopeKind, str]] = {
    "fence with a language": (FENCE, f"```json\n{CALL}\n```"),
    "fence without a language": (FENCE, f"```\n{CALL}\n```"),
    "fence of a tool call": (FENCE, f"```tool_call\n{CALL}\n```"),
    "fence around tags": (FENCE, f"```xml\n<tools>\n{CALL}\n</tools>\n```"),
    "fence around a function": (FENCE, '```tool_code\nget_weather(city="Paris")\n```'),
    "object": (OBJECT, CALL),
    "object over lines": (OBJECT, f'{{\n  "name": "get_weather",\n  "arguments": {ARGUMENTS}\n}}'),
    "list": (LIST, f"[{CALL}]"),
    "<tools>": (TAG, f"<tools>\n{CALL}\n</tools>"),
    "<function_call>": (TAG, f"<function_call>{CALL}</function_call>"),
    "<functioncall> without closer": (TAG, f"<functioncall> {CALL}"),
    "<function=> with JSON": (TAG, f"<function=get_weather>{ARGUMENTS}</function>"),
    "<function=> with tags": (
        TAG,
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
    ),
    "<invoke>": (TAG, f'<invoke name="get_weather">\n{PARAMETER}\n</invoke>'),
    "<invoke> in <function_calls>": (
        TAG,
        f'<function_calls>\n<invoke name="get_weather">\n{PARAMETER}\n</invoke>\n</function_calls>',
    ),
    "<invoke> with JSON": (TAG, f'<invoke name="get_weather">{ARGUMENTS}</invoke>'),
    "[TOOL_CALLS]": (TAG, f"[TOOL_CALLS]{CALL}"),
    "[TOOL_CALLS] with a list": (TAG, f"[TOOL_CALLS] [{CALL}]"),
    "[TOOL_CALLS] with a name": (TAG, f"[TOOL_CALLS]get_weather{ARGUMENTS}"),
    "[TOOL_CALLS] with [ARGS]": (TAG, f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}"),
    "<|python_tag|>": (TAG, f"<|python_tag|>{CALL}"),
    "<|python_tag|> with a function": (TAG, '<|python_tag|>get_weather(city="Paris")'),
    "functions.NAME": (FUNCTION, f"functions.get_weather({ARGUMENTS})"),
    "list of functions.NAME": (LIST, f"[functions.get_weather({ARGUMENTS})]"),
    "NAME": (FUNCTION, 'get_weather(city="Paris")'),
    "list of NAME": (LIST, '[get_weather(city="Paris")]'),
    "name with a prefix": (OBJECT, CALL.replace("get_weather", "functions.get_weather")),
    "function and parameters": (
        OBJECT,
        f'{{"function": "get_weather", "parameters": {ARGUMENTS}}}',
    ),
    "tool and args": (OBJECT, f'{{"tool": "get_weather", "args": {ARGUMENTS}}}'),
    "tool_name and tool_input": (
        OBJECT,
        f'{{"tool_name": "get_weather", "tool_input": {ARGUMENTS}}}',
    ),
    "the type first": (
        OBJECT,
        f'{{"type": "function", "name": "get_weather", "parameters": {ARGUMENTS}}}',
    ),
    "the arguments first": (OBJECT, f'{{"arguments": {ARGUMENTS}, "name": "get_weather"}}'),
    "arguments as a string": (OBJECT, f'{{"name": "get_weather", "arguments": {STRING}}}'),
    "a string first": (OBJECT, f'{{"arguments": {STRING}, "name": "get_weather"}}'),
    "tool_calls": (LIST, f'{{"tool_calls": [{CALL}]}}'),
    "tool_calls of OpenAI": (
        LIST,
        f'{{"tool_calls": [{{"type": "function", "function": {CALL}}}]}}',
    ),
    "function of OpenAI": (OBJECT, f'{{"type": "function", "function": {CALL}}}'),
    "function_call": (OBJECT, f'{{"function_call": {CALL}}}'),
    "single quotes": (OBJECT, CALL.replace('"', "'")),
    "opener without its last character": (TAG, f"<tool_call\n{CALL}\n</tool_call>"),
    "opener without its first character": (TAG, f"tool_call>\n{CALL}\n</tool_call>"),
    "doubled opener": (TAG, f"<tool_call>\n<tool_call>\n{CALL}\n</tool_call>"),
    "fence around the tags of Hermes": (FENCE, f"```\n<tool_call>\n{CALL}\n</tool_call>\n```"),
    "tags of Hermes without closer": (TAG, f"<tool_call>\n{CALL}"),
    "another version of DSML": (
        TAG,
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
}
SEVERAL = {
    "objects on lines": f"{CALL}\n{CALL}",
    "objects on a line": f"{CALL}, {CALL}",
    "list": f"[{CALL}, {CALL}]",
    "fence": f"```json\n{CALL}\n{CALL}\n```",
    "list in a fence": f"```json\n[\n{CALL},\n{CALL}\n]\n```",
    "two fences": f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
    "tags": f"<tools>{CALL}</tools>\n<tools>{CALL}</tools>",
    "list of functions": '[get_weather(city="Paris"), get_weather(city="Paris")]',
    "tool_calls": f'{{"tool_calls": [{CALL}, {CALL}]}}',
}
