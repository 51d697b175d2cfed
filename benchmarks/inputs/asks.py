"""What the adversary asks for, and what is wrong with what comes back."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from benchmarks.inputs.tool_sets import usable
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.answers import read_response_format, read_target
from constrained.prompt.format_selection.selection import SelectedFormat
from constrained.prompt.job import Job
from constrained.prompt.tools.shapes import as_openai
from grammars.turn import Choice, Think

CHOICES = ("auto", "none", "required", "named", "allowed", "auto, single", "required, single")
ANSWERS = ("schema or call", "schema", "regex or call", "regex", "choice", "grammar")
POLICIES = (*CHOICES, *ANSWERS)
REGEX = "[A-Z][a-z]{2,8}( [0-9]{1,3})?|<[a-z]+>"
CHOICE = ["yes", "no", "it depends", "«ça dépend»"]
GRAMMAR = 'start: "(" item ("," item)* ")"\nitem: /[a-z]{1,5}/ | start'


@dataclass(frozen=True)
class Ask:
    """A request of the adversary, and what the reply is judged by."""

    policy: str
    job: Job
    tools: tuple[dict[str, Any], ...]
    schema: Any = None

    @property
    def is_required(self) -> bool:
        return self.policy.startswith(("required", "named"))


def ask(
    row: dict[str, Any], teaching: SelectedFormat, policy: str, draw: random.Random
) -> Ask | None:
    """Returns a request over the tools of a row; None where format or template refuse all of
    them."""
    format = teaching.format
    tools = usable(row, teaching)
    if not tools:
        return None
    names = [t["function"]["name"] for t in as_openai(tools)]
    messages = [{"role": "user", "content": row.get("user") or "What is there to do?"}]
    on = draw.choice([None, True, False])
    can_think = format.reasoning is not None and on is not False
    options: dict[str, Any] = {
        "template_kwargs": {} if on is None else {"enable_thinking": on},
        "think": draw.choice([t for t in Think if can_think or t is not Think.REQUIRED]),
    }
    if policy in CHOICES:
        word, _, single = policy.partition(", ")
        options |= {"tool_choice": _choice(word, names, draw), "parallel": not single}
        return Ask(policy, Job(messages, tools, **options), tools)
    kind, _, beside = policy.partition(" or ")
    if format.bare and beside and kind != "schema":
        return None  # refused: such an answer cannot be told from a call
    schema = _answer_schema(tools, draw) if kind == "schema" else None
    if schema is not None:
        answer = read_response_format({"type": "json_schema", "json_schema": {"schema": schema}})
    else:
        wanted: dict[str, Any] = {"regex": REGEX, "choice": CHOICE, "grammar": GRAMMAR}
        answer = read_target(**{kind: wanted[kind]}).answer
    offered = tools if beside else ()
    return Ask(policy, Job(messages, offered, answer=answer, **options), offered, schema)


def _choice(word: str, names: list[str], draw: random.Random) -> Any:
    if word == "named":
        return {"type": "function", "function": {"name": draw.choice(names)}}
    if word == "allowed":
        allowed = [{"name": n} for n in draw.sample(names, draw.randint(1, len(names)))]
        mode = draw.choice(["auto", "required"])
        return {"type": "allowed_tools", "mode": mode, "tools": allowed}
    return word


def _answer_schema(tools: Sequence[dict[str, Any]], draw: random.Random) -> Any:
    """Returns a schema of a tool as that of the answer, or a plain one."""
    schema = as_openai([draw.choice(tools)])[0]["function"]["parameters"]
    plain = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    has_both = {"name", "parameters"} <= set(schema.get("properties", {}))
    return plain if has_both or draw.random() < 0.3 else schema | {"additionalProperties": False}


def find_faults(request: Ask, turn: CompiledTurn, reply: Reply) -> list[str]:
    """Returns what is wrong with a reply; arguments and answers are judged by jsonschema-rs."""
    faults: list[str] = []
    bodies = {t["function"]["name"]: t["function"] for t in as_openai(request.tools)}
    allowed = turn.policy.names or tuple(bodies)
    for call in reply.calls:
        if call.name not in bodies or call.name not in allowed:
            faults.append(f"a call of {call.name}, which is not allowed")
            continue
        read = next(tool.schema for tool in turn.tools if tool.name == call.name)
        # What was repaired admits nothing as it stands.
        schema = read.source if read.report.repaired else bodies[call.name]["parameters"]
        json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()
        if not jsonschema_rs.validator_for(schema).is_valid(call.arguments) or not call.valid:
            faults.append(f"invalid arguments {call.arguments} {call.errors}")
    if turn.policy.choice is Choice.NONE and reply.calls:
        faults.append("a call, though none is allowed")
    if len(reply.calls) > 1 and not turn.policy.parallel:
        faults.append("more than one call")
    if turn.policy.choice is Choice.REQUIRED and not reply.calls:
        faults.append("no call, though one is required")
    if reply.unfinished:
        faults.append(f"a cut call: {reply.unfinished!r}")
    return faults + _find_answer_faults(request, turn, reply)


def _find_answer_faults(request: Ask, turn: CompiledTurn, reply: Reply) -> list[str]:
    if turn.policy.answer is None:
        return []
    if reply.calls:
        return ["content beside a call, where an answer is asked for"] if reply.content else []
    if request.schema is None:
        return [] if reply.content or reply.finish_reason == "length" else ["no answer"]
    try:
        value = json.loads(reply.content)
    except ValueError:
        return [f"the answer is not JSON: {reply.content!r}"]
    fits = jsonschema_rs.validator_for(request.schema).is_valid(value)
    return [] if fits else [f"the answer does not fit: {reply.content!r}"]
