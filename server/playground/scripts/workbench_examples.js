/* What the workbench opens with, and further examples for one click. */

const EXAMPLE_TEMPLATE = `{%- if tools %}
<|im_start|>system
You may call these tools. Write a call as
<tool_call>{"name": ..., "arguments": {...}}</tool_call>
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools><|im_end|>
{% endif %}
{%- for message in messages %}
<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;
const FITTING = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}}\n</tool_call>';

const WORKBENCH_EXAMPLES = {
  "A call that fits": { text: FITTING },
  "A missing quote": { text: FITTING.replace('"Paris"', "Paris") },
  "A value that is not allowed": { text: FITTING.replace("celsius", "kelvin") },
  "Another format: Llama 3": {
    template: "",
    format: "llama3_json",
    text: '{"name": "get_weather", "parameters": {"city": "Paris"}}',
  },
};

function makeExample(changes) {
  return {
    template: EXAMPLE_TEMPLATE,
    format: "",
    tools: JSON.stringify(EXAMPLE_TOOLS.slice(0, 1), null, 2),
    messages: JSON.stringify([{ role: "user", content: EXAMPLE_QUESTIONS[0] }]),
    kwargs: "",
    choice: "auto",
    markers: "text",
    ...changes,
  };
}
