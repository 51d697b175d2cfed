"""A first call: a question, several tools, a typed call, and an answer that uses its result.

    python -m examples.first_call [MODEL]

Without a model, that of the package answers. A MODEL is a GGUF file, or hf:user/repo:quant.
"""

import json
import sys
from typing import Any

import jsonschema_rs

from constrained import Model, Sampling, load
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from grammars.wire.formats import GENERIC

QUESTION = "What's the weather in Paris tomorrow, in celsius?"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Forecast for a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1, "maxLength": 20},
                    "day": {"type": "string", "enum": ["today", "tomorrow"]},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "day", "unit"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "convert_currency",
            "description": "Converts an amount of money",
            "parameters": {
                "type": "object",
                "properties": {
                    "amount": {"type": "number", "minimum": 0, "maximum": 1000000},
                    "from": {"type": "string", "pattern": "^[A-Z]{3}$"},
                    "to": {"type": "string", "pattern": "^[A-Z]{3}$"},
                },
                "required": ["amount", "from", "to"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "set_alarm",
            "description": "Sets an alarm",
            "parameters": {
                "type": "object",
                "properties": {
                    "hour": {"type": "integer", "minimum": 0, "maximum": 23},
                    "minute": {"type": "integer", "minimum": 0, "maximum": 59},
                    "weekdays_only": {"type": "boolean"},
                },
                "required": ["hour", "minute"],
            },
        },
    },
]


FORECAST = {"weather": "sunny", "temperature": 24}
GREEDY = Sampling(temperature=0)


def main() -> None:
    """Loads a model, asks it, and prints what happened."""
    with load(sys.argv[1] if len(sys.argv) > 1 else None) as model:
        for notice in model.notices:
            print(f"({notice})")
        ask(model)


def ask(model: Model) -> None:
    """Asks the question; whether a tool is called, and which one, is the model's choice."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    print(f"question    {QUESTION}")
    reply = answer(model, messages)
    if not reply.calls:
        print(f"answer      {reply.content}")
        return
    messages.append(reply.message())
    for call in reply.calls:
        schema = next(t["function"] for t in TOOLS if t["function"]["name"] == call.name)
        valid = jsonschema_rs.is_valid(schema["parameters"], call.arguments)
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        print(f"call        {call.name} {arguments}  (valid: {valid})")
        result = json.dumps(FORECAST)
        print(f"result      {result}  (made up)")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print(f"answer      {answer(model, messages).content}")


def answer(model: Model, messages: list[Any]) -> Reply:
    """One turn of the model, with what it took."""
    kwargs = {"enable_thinking": False}
    turn = model.compile(Job(messages, TOOLS, template_kwargs=kwargs))
    reply = model.complete([turn], sampling=GREEDY, max_tokens=300)[0]
    usage = reply.usage
    source = "explained in the prompt" if turn.format == GENERIC else "read from the chat template"
    print(f"format      {turn.format.name}, {source}")
    print(f"written     {reply.text!r}")
    print(f"model runs  {usage.forward_passes} for {usage.completion_tokens} tokens")
    return reply


if __name__ == "__main__":
    main()
