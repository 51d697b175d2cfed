"""A first call: several tools, a GGUF file, and a typed answer that fits.

    python -m examples.first_call [-m MODEL.gguf]

Without a model it makes one: the vocabulary and the chat template of Qwen3, the weights random. The
structure of what such a model writes is right, because the grammar holds it; the words are noise.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import jsonschema_rs
from examples.model_file import make_model as make_small

from constrained import Model, Sampling, load
from constrained.job import Job
from examples.random_model import (
    MARKERS,
    read_vocabulary,
    template,
    vocabulary_file,
    with_markers,
    write_model,
)

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


def main() -> None:
    """Makes or loads a model, asks it, and prints what happened."""
    parser = argparse.ArgumentParser(description="A first call.")
    parser.add_argument("-m", "--model", type=Path, help="a GGUF file; default: a random one")
    parser.add_argument("--small", action="store_true", help="a small vocabulary, no download")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model or make_model(Path(folder) / "random.gguf", small=options.small)
        with load(path) as model:
            ask(model)


def make_model(path: Path, *, small: bool) -> Path:
    """Writes a model with random weights; its vocabulary and template are real unless `small`."""
    if small:
        return make_small(path)
    print("making a model: Qwen's vocabulary and the Qwen3 chat template, random weights")
    source, tokens = template("Qwen-Qwen3-0.6B"), read_vocabulary(vocabulary_file("qwen2"))
    return write_model(path, with_markers(tokens, MARKERS), source)


def ask(model: Model) -> None:
    """Asks the question; a call is required, the tool is the model's choice."""
    messages = [{"role": "user", "content": QUESTION}]
    kwargs = {"enable_thinking": False}
    job = Job(messages, TOOLS, "required", parallel=False, template_kwargs=kwargs)
    turn = model.compile(job)
    print(f"vocabulary  {len(model.engine.vocabulary.tokens):,} tokens")
    print(f"format      {turn.format.name}, read from the chat template")
    print(f"question    {QUESTION}")
    print(f"tools       {', '.join(tool.name for tool in turn.tools)}")
    print(f"prompt      ...{turn.prompt.text[-90:]!r}")
    print(f"start       {turn.state.start.value} (where the prompt leaves the reasoning block)")
    reply = model.complete([turn], sampling=Sampling(seed=7))[0]
    print(f"written     {reply.text!r}")
    for call in reply.calls:
        schema = next(t.schema.source for t in turn.tools if t.name == call.name)
        valid = jsonschema_rs.validator_for(schema).is_valid(call.arguments)
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        print(f"call        {call.name} {arguments}  (valid: {valid})")
    usage = reply.usage
    print(f"model runs  {usage.forward_passes} for {usage.completion_tokens} tokens")


if __name__ == "__main__":
    main()
