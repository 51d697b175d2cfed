"""A first call, without and with the mask; a typed answer; an agent with two functions.

    python -m examples.first_call [MODEL]

Without a model, that of the package answers. A MODEL is a GGUF file, or hf:user/repo:quant.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from constrained import Model, load
from constrained.model_files.embedded import NOTICE
from constrained.prompt.job import Job
from grammars.parse.parser import parse

ABOUT = """\
The model of this demo is small (5 million parameters, in the package). It chooses among a few
functions and copies values from short requests in plain English, one step at a time. It knows
nothing of the world and no other language, and half of its calls are not the right ones: real work
needs a larger model.
"""
CHOSEN = """\
  This question was chosen because it fails without the mask. Of the calls for 100 questions that
  were written by hand, 83 % are valid without the mask, and 100 % with it
  (examples/demo_model/MODEL_CARD.md)."""
DOWNLOAD = "-hf Qwen/Qwen3-0.6B-GGUF:Q8_0"
OPTIONS: dict[str, Any] = {"max_tokens": 200, "template_kwargs": {"enable_thinking": False}}


def find_restaurant(cuisine: str, city: str | None = None) -> str:
    """Finds a restaurant."""
    return f"a {cuisine} restaurant is found"


def reserve_table(restaurant: str, people: int, time: str) -> str:
    """Reserves a table in a restaurant."""
    return f"a table for {people} is reserved at {restaurant}, {time}"


def cancel_reservation(restaurant: str) -> str:
    """Cancels a reservation."""
    return f"the table at {restaurant} is cancelled"


def get_price(product: str) -> dict[str, object]:
    """The price of a product, in dollars."""
    return {"price": 20}


def convert_money(amount: float, currency: Literal["EUR", "GBP"]) -> dict[str, object]:
    """Converts dollars to another currency."""
    rates = {"EUR": 0.92, "GBP": 0.79}
    return {"amount": round(amount * rates[currency], 2), "currency": currency}


class Order(BaseModel):
    """An order in a cafe."""

    drink: Literal["espresso", "latte", "tea"]
    cups: int = Field(ge=1, le=12)


def main() -> None:
    """Loads a model, shows what it does, and names the next step."""
    with load(sys.argv[1] if len(sys.argv) > 1 else None) as model:
        is_demo = NOTICE in model.notices
        print(ABOUT if is_demo else "\n".join(model.notices))
        compare(model)
        if is_demo:
            print(CHOSEN)
        print()
        answer_typed(model)
        run_agent(model)
    if is_demo:
        name_next_step()


def compare(model: Model) -> None:
    """Asks the same question without and with the mask, and makes the calls."""
    question = "we can't make it to Luigi's tonight, please cancel"
    tools = [find_restaurant, reserve_table, cancel_reservation]
    print("1. The same question, without and with the mask")
    print(f"  question      {question}")
    print(f"  functions     {', '.join(tool.__name__ for tool in tools)}")
    show_calls("without mask", call_freely(model, question, tools), tools)
    reply = model.call(question, tools, **OPTIONS)
    calls = [(call.name, call.arguments) for call in reply.calls]
    show_calls("with mask", calls, tools)


def call_freely(
    model: Model, question: str, tools: Sequence[Callable[..., Any]]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Lets the model write what it likes after the same prompt, and reads the calls in that."""
    message = {"role": "user", "content": question}
    turn = model.compile(Job([message], list(tools), template_kwargs=OPTIONS["template_kwargs"]))
    free = model.compile_text(turn.tokens)  # a raw prompt: its reply has no grammar
    [reply] = model.complete([free], max_tokens=OPTIONS["max_tokens"])
    read = parse(reply.text, turn.format, turn.tools, turn.state, recover=True)
    return [(call.name, call.arguments) for call in read.calls]


def show_calls(
    title: str,
    calls: Sequence[tuple[str, Mapping[str, Any]]],
    tools: Sequence[Callable[..., Any]],
) -> None:
    """Makes calls, and prints what comes of each."""
    functions = {tool.__name__: tool for tool in tools}
    if not calls:
        print(f"  {title:<13} no call")
    for name, arguments in calls:
        print(f"  {title:<13} {name} {json.dumps(arguments)}")
        try:
            print(f"    it works:   {functions[name](**arguments)}")
        except (KeyError, TypeError, ValueError) as error:
            print(f"    it fails:   {error}")


def answer_typed(model: Model) -> None:
    """Asks for an instance of a pydantic model."""
    question = "could you make me two lattes please"
    print("2. A typed answer: an instance of your pydantic model")
    print(f"  question      {question}")
    print(f"  answer        {model.generate(question, schema=Order, **OPTIONS)!r}\n")


def run_agent(model: Model) -> None:
    """Has two functions called; the second one needs the result of the first."""
    print("3. An agent: your functions are called, and the model reads their results")
    messages: list[Any] = []
    for question in ("What does a lamp cost?", "Convert that to EUR"):
        messages.append({"role": "user", "content": question})
        run = model.run(messages, [get_price, convert_money], max_steps=4, **OPTIONS)
        print(f"  question      {question}")
        for made in run.calls:
            print(f"  call          {made.call.name} {json.dumps(made.call.arguments)}")
            print(f"  result        {made.content}")
        print(f"  answer        {run.content}")
        messages = list(run.messages)


def name_next_step() -> None:
    """Prints the command for a model that can do more: one of this machine, or a download."""
    command = [sys.executable, "-m", "constrained", "models", "--json"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    found = [row for row in listed if row["purpose"] == "text" and row["source"] != "a package"]
    program = shutil.which("constrained") or Path(sys.executable).with_name("constrained")
    program = Path(program).absolute()
    if program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    print("\nNext, talk to a real model:")
    if found:
        latest = max(found, key=lambda row: row["used"] or 0)
        print(f"  {program} chat {latest['option']}")
        print(f"({latest['name']} is on this machine; all: {program} models)")
    else:
        print(f"  {program} chat {DOWNLOAD}")
        print(f"(downloads 0.6 GB, once; models that are on this machine: {program} models)")


if __name__ == "__main__":
    main()
