"""Small chat templates, each with one way to make the KV cache useless, or only to look so."""

HEAD = """{%- for message in messages %}
{%- if message.role == 'system' %}{{ '<|im_start|>system\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if tools %}{{ '<tools>' + tools|tojson + '</tools>\\n' }}{%- endif %}
"""
TAIL = "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
CALLS = """{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n' + call.function|tojson + '\\n</tool_call>' }}{%- endfor %}"""
TURN = "{{- '<|im_start|>' + message.role + '\\n' + message.content }}"
THOUGHT = """{{- '<|im_start|>assistant\\n<think>\\n' + message.reasoning_content }}
{{- '\\n</think>\\n\\n' + message.content }}"""
OTHERS = """{%- elif message.role in ('user', 'tool') %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}"""


def _write(before: str, assistant: str, others: str = OTHERS) -> str:
    return (
        HEAD
        + before
        + "{%- for message in messages %}\n{%- if message.role == 'assistant' %}\n"
        + assistant
        + CALLS
        + "{{- '<|im_end|>\\n' }}\n"
        + others
        + "\n{%- endfor %}\n"
        + TAIL
    )


KEPT = _write(
    "", "{%- if message.reasoning_content %}" + THOUGHT + "{%- else %}" + TURN + "{%- endif %}"
)
"""Writes all reasoning, so every prompt begins with the last one."""
QUERY_TAG = "{%- if loop.index0 > ns.last_question and message.reasoning_content %}"
LAST_QUERY = _write(
    "{%- set ns = namespace(last_question=-1) %}{%- for message in messages %}"
    "{%- if message.role == 'user' %}{%- set ns.last_question = loop.index0 %}{%- endif %}"
    "{%- endfor %}\n",
    QUERY_TAG + THOUGHT + "{%- else %}" + TURN + "{%- endif %}",
)
"""Reasoning in front of the last question is dropped."""
SWITCHED = LAST_QUERY.replace(
    QUERY_TAG,
    "{%- if (keep_all or loop.index0 > ns.last_question) and message.reasoning_content %}",
)
"""The same with a variable that keeps it."""
DATED = "{%- set today = strftime_now('%d %B %Y') %}\n{{- 'Today is ' + today + '\\n' }}" + KEPT
"""The date stands in front of all."""
HARMLESS = KEPT.replace(
    "{{- '<|im_end|>\\n' }}",
    "{{- '<|im_end|>' }}{%- if loop.last %}{{- '\\n' }}{%- else %}{{- '\\n' }}{%- endif %}",
)
"""Asks whether a message is the last one, and writes the same either way."""
HARMFUL = KEPT.replace(
    "message.content + '<|im_end|>\\n' }}\n{%- endif %}",
    "message.content }}{%- if loop.last %}{{- '\\nAnswer in English.' }}{%- endif %}"
    "{{- '<|im_end|>\\n' }}\n{%- endif %}",
)
"""The last message gets an instruction of its own."""
