"""A small agent: the openai package, functions that run, and a loop until there is an answer.

python -m examples.server.agent "What is 17 times 23?"
"""

import json
import operator
import sys
from collections.abc import Callable
from typing import Any

from openai import OpenAI

from examples.server import URL

MAX_STEPS = 5
client = OpenAI(base_url=f"{URL}/v1", api_key="not-needed")
OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}


def calculate(operation: str, a: float, b: float) -> float:
    """Does what the tool says."""
    return OPERATIONS[operation](a, b)


FUNCTIONS = {"calculate": calculate}
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "calculate",
            "description": "Calculate with two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "operation": {"type": "string", "enum": list(OPERATIONS)},
                    "a": {"type": "number", "description": "the first number"},
                    "b": {"type": "number", "description": "the second number"},
                },
                "required": ["operation", "a", "b"],
            },
        },
    }
]


def carry_out(call: Any) -> str:
    """The result of a call, or what went wrong, for the model."""
    arguments = json.loads(call.function.arguments)  # always JSON that fits the schema
    try:
        result = FUNCTIONS[call.function.name](**arguments)
    except ArithmeticError as error:
        return json.dumps({"error": str(error)})
    print(f"{call.function.name}({arguments}) -> {result}")
    return json.dumps({"result": result})


def main() -> None:
    """Asks what the command line says."""
    question = sys.argv[1] if len(sys.argv) > 1 else "What is 17 times 23?"
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MAX_STEPS):
        reply = client.chat.completions.create(
            model="demo", messages=messages, tools=TOOLS, temperature=0, max_tokens=300
        )
        message = reply.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            print(message.content)
            return
        for call in message.tool_calls:
            result = {"role": "tool", "tool_call_id": call.id, "content": carry_out(call)}
            messages.append(result)
    print(f"no answer after {MAX_STEPS} steps")


if __name__ == "__main__":
    main()
