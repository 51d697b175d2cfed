"""The anthropic package: a call, its result, and the answer that uses it.

python -m examples.server.anthropic_client
"""

from typing import Any

from anthropic import Anthropic

from examples.server import URL

client = Anthropic(base_url=URL, api_key="not-needed")
TOOL: Any = {
    "name": "get_weather",
    "description": "Get the weather forecast for a city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "the name of the city"},
            "day": {"type": "string", "enum": ["today", "tomorrow"]},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "day", "unit"],
    },
    "cache_control": {"type": "ephemeral"},
}
FORECAST = '{"city": "Paris", "day": "tomorrow", "forecast": "light rain", "temperature": 14}'


def main() -> None:
    """Asks, gives the result of the call, and shows the answer."""
    messages: list[Any] = [
        {"role": "user", "content": "What's the weather in Paris tomorrow, in celsius?"}
    ]
    ask: Any = {"model": "demo", "max_tokens": 300, "tools": [TOOL]}
    ask["extra_body"] = {"temperature": 0}  # the package has no name for it
    with client.messages.stream(messages=messages, **ask) as stream:
        reply = stream.get_final_message()
    results = list[Any]()
    for block in reply.content:
        if block.type == "tool_use":
            print("call  ", block.name, block.input)
            results.append({"type": "tool_result", "tool_use_id": block.id, "content": FORECAST})
    messages += [
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": results},
    ]
    answer = client.messages.create(messages=messages, **ask)
    print("answer", "".join(block.text for block in answer.content if block.type == "text"))
    print("cached", answer.usage.cache_read_input_tokens, "tokens")


if __name__ == "__main__":
    main()
