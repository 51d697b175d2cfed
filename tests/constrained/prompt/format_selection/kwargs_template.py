"""A template whose format and effort follow from its keyword arguments."""

HEAD = "{% if tools %}<|tools|>{{ tools|tojson }}<|eot|>{% endif %}"
MESSAGES = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.role == 'assistant' %}<muse>{{ m.reasoning_content or '' }}</muse>{% endif -%}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}CALL{% endfor %}<|eot|>
{%- endfor %}"""
BY_NAME = "<do>{{ c.function|tojson }}</do>"
BY_KEYS = (
    "<do {{ c.function.name }}>{% for k, v in c.function.arguments.items() %}"
    "<key {{ k }}>{{ v if v is string else v|tojson }}</key>{% endfor %}</do>"
)
EFFORTS = """{%- if add_generation_prompt %}<|assistant|>
{%- if depth == 'none' %}<muse></muse>
{%- elif depth == 'brief' %}<muse_brief>
{%- elif depth == 'odd' %}<@odd@>
{%- elif depth in [undefined, 'deep'] %}<muse>
{%- elif depth != 'quiet' %}{{ raise_exception('no such depth') }}{% endif %}{% endif %}"""
SYNTAX = f"{{% if syntax == 'keys' %}}{BY_KEYS}{{% else %}}{BY_NAME}{{% endif %}}"
SOURCE = HEAD + MESSAGES.replace("CALL", SYNTAX) + EFFORTS
