# pyright: reportMissingImports=false
"""The peer guidance for `benchmarks.peers` and `benchmarks.real`, in a virtual environment of its
own.

python -m benchmarks.peer_processes.guidance_peer MODEL.gguf THREADS CONTEXT
"""

import json
import sys
import time
from functools import cache
from typing import Any

import guidance
import guidance.models

from benchmarks.peer_processes.lines import Answer, Ask, serve

CERTAIN = 1e9
NAME = "answer"


class Imposer:
    """Makes the next token of a given text the most likely one: one value is written into the
    logits that the engine computes; all that guidance does with them it does as always."""

    def __init__(self, engine: Any):
        self._compute = engine.get_logits
        self._tokenizer = engine.tokenizer
        self._text: bytes | None = b""
        self._prompt = b""
        self._known: dict[int, int] = {}
        self.passes = 0
        engine.get_logits = self.get_logits

    def impose(self, prompt: str, text: str | None) -> None:
        """The text that follows a prompt; None: what the model says."""
        self._prompt, self._text, self.passes = prompt.encode(), None, 0
        self._known, at = {}, 0
        if text is None:
            return
        self._text = text.encode()
        for token in self._tokenizer.encode(self._text):
            self._known[at] = token
            at += len(self._tokenizer.decode([token]))

    def count(self, text: str) -> int:
        """Returns the number of its tokens."""
        return len(self._tokenizer.encode(text.encode()))

    def get_logits(self, token_ids: list[int], *args: Any, **kwargs: Any) -> Any:
        """As that of the engine."""
        made = self._compute(token_ids, *args, **kwargs)
        self.passes += made["n_tokens"] > made["n_cached"]
        if self._text is not None:
            made["logits"][-1, self._next(token_ids, self._text)] = CERTAIN
        return made

    def _next(self, tokens: list[int], text: bytes) -> int:
        whole = self._tokenizer.decode(tokens)
        at = len(whole) - whole.rindex(self._prompt) - len(self._prompt)
        if at >= len(text):
            return self._tokenizer.eos_token_id
        known = self._known.get(at)  # else a forced token ends elsewhere
        return self._tokenizer.encode(text[at:])[0] if known is None else known


@cache
def read_grammar(schema: str, max_tokens: int, temperature: float) -> Any:
    """Returns the grammar, kept, as a program would that asks again and again."""
    limits = {"max_tokens": max_tokens, "temperature": temperature}
    return guidance.json(NAME, schema=json.loads(schema), **limits)


def answer(model: Any, imposer: Imposer, ask: Ask) -> Answer:
    """Generates one text."""
    imposer.impose(ask.prompt, ask.text)
    begin = time.perf_counter()
    grammar = read_grammar(json.dumps(ask.schema), ask.max_tokens, ask.temperature)
    if ask.stream:
        text, seconds = _read(model.stream() + ask.prompt + grammar, ask.prompt)
    else:
        text, seconds = (model + ask.prompt + grammar)[NAME], time.perf_counter()
    return Answer(
        text, seconds - begin, imposer.count(ask.prompt), imposer.count(text), imposer.passes
    )


def _read(stream: Any, prompt: str) -> tuple[str, float]:
    """Returns the text of a stream, and when the first of it came."""
    first, part = 0.0, None
    for part in stream:
        if not first and len(str(part)) > len(prompt):
            first = time.perf_counter()
    assert part is not None
    return part[NAME], first


def main(path: str, threads: str, context: str) -> None:
    """Answers what comes from stdin."""
    model = guidance.models.LlamaCpp(
        path,
        echo=False,
        enable_monitoring=False,
        n_ctx=int(context),
        n_threads=int(threads),
        n_threads_batch=int(threads),
        n_gpu_layers=-1,
        flash_attn=True,
    )
    imposer = Imposer(model._interpreter.engine)
    serve(lambda ask: answer(model, imposer, ask))


if __name__ == "__main__":
    main(*sys.argv[1:])
