"""Turns without weights: the whole stack on random logits, for each of our formats."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema_rs
import numpy as np

from benchmarks.tool_sets import usable
from constrained.answers import read_response_format, read_target
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.generic import CHATML
from constrained.job import CompiledTurn, Job
from constrained.model import Model
from constrained.reply import Reply
from constrained.template import ChatTemplate
from constrained.tools import as_openai
from constrained.vocabulary import Vocabulary, byte_vocabulary
from grammars.turn import Choice, Think
from grammars.wire import Format, TaggedArguments

TEMPLATES = ("hermes", "qwen3_coder", "mistral", "llama3_json", "generic")
VOCABULARIES = ("bytes, text", "bytes, token", "qwen2, token")
CHOICES = ("auto", "none", "required", "named", "allowed", "auto, single", "required, single")
ANSWERS = ("schema or call", "schema", "regex or call", "regex", "choice", "grammar")
POLICIES = (*CHOICES, *ANSWERS)
FOLLOW = 0.1
DRAW = Sampling(temperature=0)  # the logits are random already
CONTEXT = 2**20  # bytes are tokens, and some tool sets are long
REGEX = "[A-Z][a-z]{2,8}( [0-9]{1,3})?|<[a-z]+>"
CHOICE = ["yes", "no", "it depends", "«ça dépend»"]
GRAMMAR = 'start: "(" item ("," item)* ")"\nitem: /[a-z]{1,5}/ | start'
FOLDER = Path(__file__).parent.parent / "examples" / "templates"


class Adversary:
    """Logits for one turn: random, and now and then set on an opener or closer.

    Args:
        turn: what is generated.
        seed: of the logits.
        thinks: never sets out to end its reasoning.
    """

    def __init__(self, turn: CompiledTurn, seed: int, *, thinks: bool = False):
        assert turn.matcher is not None
        self._random = np.random.default_rng(seed)
        self._vocabulary = turn.vocabulary
        self._matcher = turn.matcher.fork()
        block = turn.format.reasoning
        left_out = block.closer.text if block and thinks else None
        texts = [text for text in _targets(turn.format) if text != left_out]
        self._targets = [turn.vocabulary.encode_special(text) for text in texts]
        self._seen = len(turn.tokens)
        self._rest: list[int] = []

    def __call__(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        for token in tokens[self._seen :]:
            self._matcher.commit(token)
        self._seen = len(tokens)
        logits = self._random.standard_normal(len(self._vocabulary.tokens), np.float32)
        if not self._rest and self._random.random() < FOLLOW:
            self._rest = self._choose()
        if self._rest:
            logits[self._rest.pop(0)] += 100
        return logits

    def _choose(self) -> list[int]:
        legal = [t for t in self._targets if self._matcher.accepts(t) == len(t)]
        if self._matcher.is_complete:
            legal.append([self._vocabulary.end[0]])
        return list(legal[self._random.integers(len(legal))]) if legal else []


def _targets(format: Format) -> list[str]:
    """What the adversary likes to write: openers and closers."""
    bare = ['{"name"'] if format.bare else []
    targets = [*format.reserved, '"', "}", "]", *bare]
    for node in format.call:
        if isinstance(node, TaggedArguments):
            targets += [node.close + node.open, node.close + node.end]
    return targets


class Stage:
    """A model that has a template and a vocabulary, and whose logits are set for each turn."""

    def __init__(self, template: str, vocabulary: Vocabulary):
        self._logits: Any = None
        engine = ScriptedEngine(
            vocabulary,
            lambda sequence, tokens: self._logits(sequence, tokens),
            context_length=CONTEXT,
        )
        source = (
            CHATML
            if template == "generic"
            else (FOLDER / f"{template}.jinja").read_text(encoding="utf-8")
        )
        self.model = Model(engine, ChatTemplate(source, bos_token="<s>", eos_token="</s>"))

    def play(
        self, turn: CompiledTurn, seed: int, max_tokens: int, *, thinks: bool = False
    ) -> Reply:
        """One turn of the adversary."""
        self._logits = Adversary(turn, seed, thinks=thinks)
        (reply,) = self.model.complete([turn], max_tokens=max_tokens, sampling=DRAW)
        return reply

    def render_next(self, messages: Sequence[Any], tools: Sequence[Any], reply: Reply) -> str:
        """The prompt of the next turn, in which the client hands the reply back."""
        history = [*messages, reply.message()]
        history += [
            {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": "{}"}
            for call in reply.calls
        ]
        history += [] if reply.calls else [{"role": "user", "content": "Go on."}]
        job = Job(history, tools)
        return self.model.compile(job).prompt.text


@cache
def stage(template: str, vocabulary: str) -> Stage:
    """The stage of a format: one of TEMPLATES on one of VOCABULARIES."""
    kind, _, markers = vocabulary.partition(", ")
    if kind == "qwen2":
        return Stage(template, real_vocabulary())
    names = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    names += ["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"]
    return Stage(template, byte_vocabulary(names if markers == "token" else ()))


@lru_cache(maxsize=1)
def real_vocabulary() -> Vocabulary:
    """The 151,936 tokens of Qwen2, with the markers that conversions add as tokens."""
    from constrained.engine.llamacpp import read_header
    from examples.random_model import (
        MARKERS,
        read_vocabulary,
        vocabulary_file,
        with_markers,
        write_model,
    )

    with TemporaryDirectory() as folder:
        tokens = with_markers(read_vocabulary(vocabulary_file("qwen2")), MARKERS)
        return read_header(write_model(Path(folder) / "model.gguf", tokens, None)).vocabulary


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


def ask(row: dict[str, Any], format: Format, policy: str, draw: random.Random) -> Ask | None:
    """A request over the tools of a row; None where the format refuses all of them."""
    tools = usable(row, format).tools
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
    """A schema of a tool as that of the answer, or a plain one."""
    schema = as_openai([draw.choice(tools)])[0]["function"]["parameters"]
    plain = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    has_both = {"name", "parameters"} <= set(schema.get("properties", {}))
    return plain if has_both or draw.random() < 0.3 else schema | {"additionalProperties": False}


def find_faults(request: Ask, turn: CompiledTurn, reply: Reply) -> list[str]:
    """What is wrong with a reply; arguments and answers are judged by jsonschema-rs."""
    faults: list[str] = []
    bodies = {t["function"]["name"]: t["function"] for t in as_openai(request.tools)}
    allowed = turn.policy.names or tuple(bodies)
    for call in reply.calls:
        if call.name not in bodies or call.name not in allowed:
            faults.append(f"a call of {call.name}, which is not allowed")
            continue
        schema = bodies[call.name]["parameters"]
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
