"""Python functions as tools: the model calls them, reads the results, and answers.

python -m examples.functions [-m MODEL.gguf]
"""

from typing import Literal

from examples.model_file import model_file

from constrained import load, tool


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, object]:
    """The weather of today.

    Args:
        city: its English name
        unit: that of the temperature
    """
    return {"city": city, "temperature": 21 if unit == "celsius" else 70, "sky": "clear"}


@tool(name="add", description="Adds two numbers.")
def add_numbers(a: int, b: int) -> int:
    return a + b


def main() -> None:
    """Asks, lets the model call at most twice, and prints each call with its result."""
    with model_file(__doc__) as path, load(path) as model:
        run = model.run(
            "Is it warmer in Rome than in Paris?",
            [get_weather, add_numbers],
            tool_choice="required",  # the first turn; from then on the model is free to answer
            parallel=False,
            max_steps=2,
            max_tokens=200,
            reasoning_budget=32,
        )
    for made in run.calls:
        print(f"{made.call.name}({made.call.arguments}) -> {made.outcome}: {made.content}")
    print(f"ended: {run.reason} after {run.steps} turns")
    print(f"answer: {run.content!r}")


if __name__ == "__main__":
    main()
