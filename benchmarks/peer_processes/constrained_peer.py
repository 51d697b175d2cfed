"""This library for `benchmarks.peers`; without a mask, for `benchmarks.real`.

python -m benchmarks.peer_processes.constrained_peer MODEL.gguf THREADS CONTEXT
"""

import sys
import time
from dataclasses import replace
from typing import Any

from benchmarks.forced import ImposedSampler
from benchmarks.peer_processes.lines import Answer, Ask, serve
from constrained import Model, Sampling, load
from constrained.reply import Reply
from grammars.turn import ContentDelta, KeyOrder, Think

GREEDY = Sampling(temperature=0)
ORDERS = {"constrained": KeyOrder.SCHEMA, "constrained, any key order": KeyOrder.ANY}


def write_freely(model: Model, prompt: str, *, temperature: float, max_tokens: int) -> Reply:
    """Returns what the model writes after a prompt without a mask, in `text`. Sampled as for a
    request to the server with seed 0."""
    sampling = replace(model.sampling, temperature=temperature, seed=0)
    turn = model.compile_text(prompt)
    [reply] = model.complete([turn], sampling=sampling, max_tokens=max_tokens)
    return reply


def answer(model: Model, ask: Ask) -> Answer:
    """Generates one call of which the text is given, or else any text."""
    if ask.text is None:
        return _answer_freely(model, ask)
    engine: Any = model.engine
    text = engine.vocabulary.encode(ask.text)
    tokens, make = [*text, engine.vocabulary.end[0]], type(engine).sampler
    engine.sampler = lambda sampling: ImposedSampler(make(engine, sampling), tokens)
    has_reasoning = model.compiler.format.reasoning is not None
    options: Any = {
        "response_format": {"type": "json_schema", "json_schema": {"schema": ask.schema}},
        "sampling": GREEDY,
        "key_order": ORDERS[ask.way],
        "think": Think.FORBIDDEN if has_reasoning else Think.OPTIONAL,
    }
    begin = time.perf_counter()
    reply, seconds = _read(model, ask, options)
    usage = reply.usage
    return Answer(
        reply.content, seconds - begin, usage.prompt_tokens, len(text), usage.forward_passes
    )


def _answer_freely(model: Model, ask: Ask) -> Answer:
    begin = time.perf_counter()
    reply = write_freely(model, ask.prompt, temperature=ask.temperature, max_tokens=ask.max_tokens)
    seconds = time.perf_counter() - begin
    usage = reply.usage
    return Answer(
        reply.text, seconds, usage.prompt_tokens, usage.completion_tokens, usage.forward_passes
    )


def _read(model: Model, ask: Ask, options: Any) -> tuple[Reply, float]:
    if not ask.stream:
        return model.call(ask.messages, **options), time.perf_counter()
    stream, first = model.stream(ask.messages, **options), 0.0
    for event in stream:
        if not first and isinstance(event, ContentDelta):
            first = time.perf_counter()
    return stream.result, first


def main(path: str, threads: str, context: str) -> None:
    """Answers what comes from stdin."""
    with load(path, threads=int(threads), context_length=int(context)) as model:
        serve(lambda ask: answer(model, ask))


if __name__ == "__main__":
    main(*sys.argv[1:])
