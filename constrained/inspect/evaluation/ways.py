"""What is asked in which way: a model file without and with the mask, and servers."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from constrained.agent.loading import load
from constrained.agent.model import Model
from constrained.engine.gguf.contents import list_parts
from constrained.engine.options import CacheType, LoadOptions, read_options
from constrained.engine.sampling import Sampling
from constrained.errors import DeadlineError, ModelError
from constrained.inspect.chat_server import ChatServer, WrongReply
from constrained.inspect.evaluation.asking import (
    CHOICES,
    AskedWay,
    Asker,
    Messages,
    ModelAnswer,
    Tools,
    WayName,
    WrittenCall,
)
from constrained.inspect.evaluation.kept_answers import KeptAnswers
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from grammars.errors import Error
from grammars.parse import parse
from grammars.turn import Think

WAYS = (WayName.FREE, WayName.MASKED)
"""Of asking a file."""
OK = 200  # a status of HTTP


@dataclass(frozen=True)
class AskOptions:
    """What holds for every answer.

    Attributes:
        parallel: several calls are allowed in an answer, as clients do by default.
        choices: the values of `tool_choice`.
        ways: of asking a file; "free" is read in both ways.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    think: Think = Think.OPTIONAL
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parallel: bool = True
    choices: Sequence[str] = CHOICES
    ways: Sequence[str] = WAYS


Askers = Mapping[AskedWay, Asker]


@dataclass(frozen=True)
class _LocalModel:
    """Asks a model in this process."""

    model: Model
    options: AskOptions
    # how many seconds each prompt took when it was first read. Whoever asks second finds it in the
    # cache; that time is added, since it is not due to the way of asking.
    read_in: dict[tuple[int, ...], float] = field(default_factory=dict[tuple[int, ...], float])

    def write(self, messages: Messages, tools: Tools) -> ModelAnswer:
        """Requests what the model writes without a mask, after the prompt that a request has."""
        began = time.perf_counter()
        try:
            turn = self.model.compile_text(self._compile(messages, tools).tokens)
            limit = self.options.max_tokens
            [reply] = self.model.complete([turn], sampling=self.sampling, max_tokens=limit)
        except Error as e:
            return _fail(e, began)
        return ModelAnswer(
            text=reply.text,
            tokens=reply.usage.completion_tokens,
            seconds=self._time(began, reply, turn.tokens),
            cut=reply.finish_reason == "length",
        )

    @property
    def sampling(self) -> Sampling:
        options = self.options
        return replace(self.model.sampling, temperature=options.temperature, seed=options.seed)

    def _compile(self, messages: Messages, tools: Tools, choice: str | None = None) -> CompiledTurn:
        has_thoughts = self.model.compiler.format.reasoning is not None
        job = Job(
            messages,
            tools,
            tool_choice=choice,
            parallel=self.options.parallel,
            think=self.options.think if has_thoughts else Think.OPTIONAL,
            template_kwargs=self.options.template_kwargs,
        )
        return self.model.compile(job)

    def _time(self, began: float, reply: Reply, prompt: Sequence[int]) -> float:
        """Returns the seconds of a reply, as if the prompt had not been in the cache."""
        took = reply.timings.prompt_seconds
        first = self.read_in.setdefault(tuple(prompt), took)
        return time.perf_counter() - began - took + max(took, first)

    def ask_freely(
        self, write: Asker, messages: Messages, tools: Tools, *, recover: bool
    ) -> ModelAnswer:
        """Reads the calls of a text written without a mask, by `write` or kept answers of it.

        Args:
            recover: read as this library does, which knows many envelopes and deviations; else as
                a strict parser of the model's format.
        """
        answer = write(messages, tools)
        if answer.error:
            return answer
        turn = self._compile(messages, tools)
        try:
            read = parse(answer.text, turn.format, turn.tools, turn.state, recover=recover)
        except Error:  # it is read no further
            return answer
        written = tuple(WrittenCall(call.name, call.arguments) for call in read.calls)
        return replace(answer, calls=written, text=read.content if written else answer.text)

    def ask_masked(self, choice: str, messages: Messages, tools: Tools) -> ModelAnswer:
        """Requests a turn with the mask, as a client does."""
        began = time.perf_counter()
        options = self.options
        try:
            turn = self._compile(messages, tools, _choose(choice, messages))
            [reply] = self.model.complete(
                [turn],
                sampling=self.sampling,
                max_tokens=options.max_tokens,
                trace=True,  # for the confidence
            )
        except Error as e:
            return _fail(e, began)
        sureness = [call.confidence.lowest for call in reply.calls if call.confidence is not None]
        return ModelAnswer(
            tuple(WrittenCall(call.name, call.arguments) for call in reply.calls),
            reply.content,
            tokens=reply.usage.completion_tokens,
            seconds=self._time(began, reply, turn.tokens),
            cut=reply.finish_reason == "length" or any(call.truncated for call in reply.calls),
            confidence=min(sureness, default=None),
        )


def _fail(error: Error, began: float) -> ModelAnswer:
    """Returns the answer for an error of a request; raises one of the model itself."""
    if isinstance(error, ModelError):
        raise error
    return ModelAnswer(error=str(error), seconds=time.perf_counter() - began)


def _choose(choice: str, messages: Messages) -> str:
    """Returns the tool choice of a turn: after a result, a model that must call could never end."""
    return "auto" if messages[-1].get("role") == "tool" else choice


@contextmanager
def open_file(
    path: Path,
    cache_type: CacheType | None,
    kept: KeptAnswers,
    options: AskOptions,
    *,
    subject: str,
    load_options: LoadOptions,
    **load_further: Any,
) -> Iterator[Askers]:
    """Loads a model file, and returns who asks it in which way.

    Args:
        cache_type: of the KV cache, keys and values; None: as `load_options` say.
        subject: what the table calls it.
    """
    if cache_type is not None:
        load_options = {**load_options, "cache_type_k": cache_type, "cache_type_v": cache_type}
    with load(path, **load_further, **load_options) as model:
        name = _name_loaded(path, load_options)
        yield make_model_askers(model, name, kept, options, subject=subject)


def make_model_askers(
    model: Model,
    name: Mapping[str, str],
    kept: KeptAnswers,
    options: AskOptions,
    *,
    subject: str,
) -> Askers:
    """Returns who asks a model of this process in which way; `name` tells it from other models in
    the kept answers."""
    local = _LocalModel(model, options)
    write = kept.keep(local.write, name, WayName.FREE)
    askers: dict[AskedWay, Asker] = {}
    if WayName.FREE in options.ways:
        for way in (WayName.FREE, WayName.READ):
            ask = partial(local.ask_freely, write, recover=way is WayName.READ)
            askers[AskedWay(subject, way, "")] = ask
    if WayName.MASKED in options.ways:
        for choice in options.choices:
            way = AskedWay(subject, WayName.MASKED, choice)
            ask = partial(local.ask_masked, choice)
            askers[way] = kept.keep(ask, name, str(way))
    return askers


def _name_loaded(path: Path, options: LoadOptions) -> dict[str, str]:
    """Returns what tells the answers of a loaded file from others: also KV cache and adapters."""
    keys, values = options.get("cache_type_k"), options.get("cache_type_v")
    name = {**identify(path), "cache": f"{keys}" if keys == values else f"{keys}, {values}"}
    for number, adapter in enumerate(read_options(options).adapters):
        name[f"adapter {number}"] = f"{identify(adapter.path)['sha256']} {adapter.scale}"
    return name


def identify(path: Path) -> dict[str, str]:
    """Returns the name of a model file, and a digest that tells it from others of this name."""
    digest = hashlib.sha256()
    for part in list_parts(path):
        with part.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return {"name": path.name, "sha256": digest.hexdigest()}


def make_server_askers(
    server: ChatServer, model: str, kept: KeptAnswers, options: AskOptions, *, subject: str
) -> Askers:
    name = {"name": server.base, "model": model}
    askers: dict[AskedWay, Asker] = {}
    for choice in options.choices:
        ask = partial(_ask_server, server, model, choice, options)
        way = AskedWay(subject, WayName.SERVED, choice)
        askers[way] = kept.keep(ask, name, str(way))
    return askers


def _ask_server(
    server: ChatServer,
    model: str,
    choice: str,
    options: AskOptions,
    messages: Messages,
    tools: Tools,
) -> ModelAnswer:
    body: dict[str, Any] = {
        "model": model,
        "messages": [_write_arguments(message) for message in messages],
        "tools": list(tools),
        "tool_choice": _choose(choice, messages),
        "parallel_tool_calls": options.parallel,
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "seed": options.seed,
    }
    if options.template_kwargs:
        body["chat_template_kwargs"] = dict(options.template_kwargs)
    began = time.perf_counter()
    try:
        reply = server.ask(body)
    except DeadlineError as e:
        return ModelAnswer(error=str(e), seconds=time.perf_counter() - began)
    seconds = time.perf_counter() - began
    if reply.status != OK:
        error = f"status {reply.status}: {reply.text[:500]}"
        return ModelAnswer(error=error, seconds=seconds)
    try:
        answer = _read_reply(reply.read_json(), options.max_tokens)
    except (WrongReply, LookupError, TypeError, AttributeError) as e:
        return ModelAnswer(error=f"no reply of Chat Completions: {e}", seconds=seconds)
    return replace(answer, seconds=seconds)


def _read_reply(reply: Mapping[str, Any], max_tokens: int) -> ModelAnswer:
    choice = reply["choices"][0]
    message = choice["message"]
    tokens = (reply.get("usage") or {}).get("completion_tokens") or 0
    calls = read_calls(message.get("tool_calls") or ())
    is_cut = choice.get("finish_reason") == "length" or tokens >= max_tokens
    return ModelAnswer(calls, message.get("content") or "", tokens=tokens, cut=is_cut)


def read_calls(calls: Iterable[Mapping[str, Any]]) -> tuple[WrittenCall, ...]:
    """Reads calls as OpenAI writes them. Arguments that are not JSON, or too deep, stay a text,
    which fits no tool."""
    read: list[WrittenCall] = []
    for call in calls:
        arguments = call["function"]["arguments"]
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
        read.append(WrittenCall(call["function"]["name"], arguments))
    return tuple(read)


def _write_arguments(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message as it goes over HTTP, where the arguments of calls are JSON text."""
    written = dict(message)
    calls: list[dict[str, Any]] = []
    for call in message.get("tool_calls") or ():
        function = dict(call["function"])
        if not isinstance(function["arguments"], str):
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        calls.append({**call, "function": function})
    if calls:
        written["tool_calls"] = calls
    return written
