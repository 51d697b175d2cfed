"""The openai package: typed calls, a typed answer, and Responses that go on from another one.

python -m examples.server.openai_client
"""

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel, Field

from examples.server import URL

client = OpenAI(base_url=f"{URL}/v1", api_key="not-needed")


class GetWeather(BaseModel):
    """Get the weather forecast for a city."""

    city: str = Field(description="the name of the city")
    celsius: bool


def main() -> None:
    """Asks in three ways."""
    question = "What's the weather in Oslo, in celsius?"
    chat = client.chat.completions.parse(
        model="demo",
        messages=[{"role": "user", "content": question}],
        tools=[pydantic_function_tool(GetWeather, name="get_weather")],
        tool_choice="required",
        temperature=0,
    )
    for call in chat.choices[0].message.tool_calls or []:
        print("call  ", repr(call.function.parsed_arguments))

    with client.chat.completions.stream(
        model="demo", messages=[{"role": "user", "content": "Hello!"}], max_tokens=40
    ) as events:
        for event in events:
            if event.type == "content.delta":
                print("delta ", repr(event.delta))

    first = client.responses.create(model="demo", input="Hello!", max_output_tokens=40)
    second = client.responses.create(
        model="demo", input="And again?", previous_response_id=first.id, max_output_tokens=40
    )
    assert second.usage is not None
    cached = second.usage.input_tokens_details.cached_tokens
    print("cached", cached, "of", second.usage.input_tokens, "tokens")


if __name__ == "__main__":
    main()
