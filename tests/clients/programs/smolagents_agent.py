"""smolagents: `OpenAIServerModel` and the agent that calls tools, over Chat Completions."""

import gc
import json
from typing import Any, ClassVar

import openai
import report
from report import QUESTION, check_weather, scenario
from rich.console import Console
from smolagents import LogLevel, OpenAIServerModel, Tool, ToolCallingAgent
from smolagents.memory import ActionStep
from smolagents.models import ChatMessage, MessageRole, agglomerate_stream_deltas

RAINY: Any = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "rainy": {"type": "boolean"}},
    "required": ["city", "rainy"],
    "additionalProperties": False,
}


class Weather(Tool):
    """The weather, as this package declares a tool."""

    name = report.WEATHER["name"]
    description = report.WEATHER["description"]
    inputs: ClassVar[Any] = {
        "city": {"type": "string", "description": "the name of the city"},
        "day": {"type": "string", "description": "the day", "enum": ["today", "tomorrow"]},
        "unit": {"type": "string", "description": "it", "enum": ["celsius", "fahrenheit"]},
    }
    output_type = "string"

    def forward(self, city: str, day: str, unit: str) -> str:
        return report.TOLD


class LongText(Tool):
    """A tool whose call takes long."""

    name = report.LONG["name"]
    description = report.LONG["description"]
    inputs: ClassVar[Any] = {
        "text": {"type": "string", "description": "the text", "minLength": 800}
    }
    output_type = "string"

    def forward(self, text: str) -> str:
        return text


def make(**options: Any) -> OpenAIServerModel:
    given: Any = {"temperature": 0, "max_tokens": 300, **options}
    given["client_kwargs"] = {"max_retries": 0}
    return OpenAIServerModel("demo", api_base=f"{report.URL}/v1", api_key="none", **given)


def make_agent(**options: Any) -> ToolCallingAgent:
    """An agent with a short prompt: the demo model has not learnt to read theirs."""
    agent = ToolCallingAgent([Weather()], make(), verbosity_level=LogLevel.OFF, **options)
    agent.prompt_templates["system_prompt"] = "You call tools."
    agent.logger.console = Console(quiet=True)  # what is streamed is printed whatever the level
    return agent


def say(text: str) -> list[ChatMessage]:
    return [ChatMessage(MessageRole.USER, [{"type": "text", "text": text}])]


def ask(question: str = QUESTION, **options: Any) -> ChatMessage:
    """One turn, with the tool on offer; without more words the client says `required`."""
    return make().generate(say(question), tools_to_call_from=[Weather()], **options)


def calls_of(message: ChatMessage) -> list[dict[str, Any]]:
    calls = [call.function for call in message.tool_calls or ()]
    return [check_weather(call.name, call.arguments) for call in calls]


def find_steps(agent: ToolCallingAgent) -> list[ActionStep]:
    steps = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
    assert [step.error for step in steps] == [None] * len(steps)
    return steps


@scenario
def plain() -> Any:
    message = make().generate(say(report.GREETING))
    assert message.role == "assistant"
    assert message.token_usage.output_tokens > 0
    assert message.content
    return message.content


@scenario
def auto() -> Any:
    calls = calls_of(ask(tool_choice="auto"))
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def required() -> Any:
    calls = calls_of(ask())
    assert calls
    return calls


@scenario
def named() -> Any:
    (call,) = calls_of(ask(tool_choice={"type": "function", "function": {"name": "get_weather"}}))
    return call


@scenario
def none() -> Any:
    message = ask(tool_choice="none")
    assert not message.tool_calls
    assert message.content
    return message.content


@scenario
def parallel() -> Any:
    assert len(calls_of(ask(report.TWO_CITIES, parallel_tool_calls=False))) == 1
    message = ask(report.TWO_CITIES)
    calls = calls_of(message)
    assert len(calls) > 1, calls
    assert len({call.id for call in message.tool_calls}) == len(calls)
    return calls


@scenario
def stream() -> Any:
    deltas = list(make().generate_stream(say(QUESTION), tools_to_call_from=[Weather()]))
    assert len(deltas) > 5
    whole = agglomerate_stream_deltas(deltas)
    assert whole.token_usage.output_tokens > 0
    assert calls_of(whole) == [report.ANSWERED]
    return calls_of(whole)


@scenario
def stream__agent() -> Any:
    agent = make_agent(stream_outputs=True, max_steps=2)
    kinds = {type(event).__name__ for event in agent.run(QUESTION, stream=True)}
    assert {"ChatMessageStreamDelta", "ToolCall", "ToolOutput"} <= kinds, kinds
    return [call.dict() | {"id": ""} for step in find_steps(agent) for call in step.tool_calls]


@scenario
def reasoning_on() -> Any:
    message = ask(reasoning_effort="low")
    assert message.raw.usage.completion_tokens_details.reasoning_tokens > 0
    assert "<think>" not in (message.content or "")
    return [message.raw.choices[0].message.reasoning_content, calls_of(message)]


@scenario
def reasoning_off() -> Any:
    message = ask(reasoning_effort="none")
    assert message.raw.usage.completion_tokens_details.reasoning_tokens == 0
    return calls_of(message)


@scenario
def round_trip() -> Any:
    """The agent runs the tool, and answers with its own tool or, when its steps are over, in
    words. Calls and results go back as text: that is how this client writes its history."""
    agent = make_agent(max_steps=2)
    answer = agent.run(QUESTION)
    steps = find_steps(agent)
    (call,) = steps[0].tool_calls
    assert check_weather(call.name, call.arguments) == report.ANSWERED
    assert steps[0].observations == report.TOLD
    assert answer
    return [answer, [call.dict() | {"id": ""} for step in steps for call in step.tool_calls or ()]]


@scenario
def round_trip__typed() -> Any:
    form: Any = {"type": "json_schema", "json_schema": {"name": "day", "schema": RAINY}}
    return json.loads(make().generate(say(QUESTION), response_format=form).content)


@scenario
def error() -> Any:
    try:
        ask(tool_choice="sometimes")
    except openai.BadRequestError as refusal:
        assert refusal.param == "/tool_choice", refusal.param
        return refusal.type
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    with report.cancelling():
        model = make(max_tokens=1500)
        deltas = model.generate_stream(say(QUESTION), tools_to_call_from=[LongText()])
        next(deltas)
        deltas.close()
        gc.collect()  # this client leaves it to the garbage collector to close the connection
    return calls_of(ask())


report.main()
