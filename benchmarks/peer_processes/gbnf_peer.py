"""The peer llama-cpp-python for `benchmarks.peers` and `benchmarks.real`: its own loop, with its
GBNF grammar or without.

python -m benchmarks.peer_processes.gbnf_peer MODEL.gguf THREADS CONTEXT
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import llama_cpp

from benchmarks.peer_processes.lines import Answer, Ask, serve

CERTAIN = 1e9
default_params = llama_cpp.llama_model_default_params


def model_params() -> Any:
    """llama.cpp's, without its code for AMX, which ends the process where GCC 12 compiled it. The
    engine of this library leaves it out likewise."""
    params = default_params()
    params.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
    return params


class ImposedLlama(llama_cpp.Llama):
    """A Llama that finds the next token of a given text the most likely one: one value is written
    into the logits, and then its sampler chain runs as it always does.

    Attributes:
        text_tokens: the text; None: what the model says.
    """

    text_tokens: Sequence[int] | None = None
    start = 0
    passes = 0

    def generate(self, tokens: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        """As that of the base class."""
        self.start = len(tokens)
        return super().generate(tokens, *args, **kwargs)

    def eval(self, tokens: Sequence[int]) -> None:
        """As that of the base class; counts."""
        self.passes += bool(tokens)
        super().eval(tokens)

    def sample(self, *args: Any, idx: int | None = None, **kwargs: Any) -> int:
        """As that of the base class."""
        if self.text_tokens is not None:
            row: Any = llama_cpp.llama_get_logits_ith(
                self.ctx, -1 if idx is None else idx - self.n_tokens
            )
            row[self.text_tokens[self.n_tokens - self.start]] = CERTAIN
        return super().sample(*args, idx=idx, **kwargs)


@cache
def read_grammar(schema: str) -> llama_cpp.LlamaGrammar:
    """Returns the grammar, kept, as a program would that asks again and again."""
    return llama_cpp.LlamaGrammar.from_json_schema(schema, verbose=False)


def answer(llama: ImposedLlama, ask: Ask) -> Answer:
    """Generates one completion."""
    llama.text_tokens, llama.passes = None, 0
    if ask.text is not None:
        text = llama.tokenize(ask.text.encode(), add_bos=False)
        llama.text_tokens = [*text, llama.token_eos()]
    begin = time.perf_counter()
    grammar = read_grammar(json.dumps(ask.schema)) if ask.way != "unconstrained" else None
    made: Any = llama.create_completion(
        ask.prompt,
        grammar=grammar,
        max_tokens=ask.max_tokens,
        repeat_penalty=1.0,
        stream=ask.stream,
        temperature=ask.temperature,
    )
    written, seconds = _read(made) if ask.stream else (made["choices"][0]["text"], 0.0)
    seconds = (seconds or time.perf_counter()) - begin
    tokens = len(llama.tokenize(written.encode(), add_bos=False))
    return Answer(written, seconds, llama.start, tokens, llama.passes)


def _read(chunks: Iterator[Any]) -> tuple[str, float]:
    """Returns the text of a stream, and when the first of it came."""
    text, first = "", 0.0
    for chunk in chunks:
        text += chunk["choices"][0]["text"]
        first = first or (time.perf_counter() if text else 0.0)
    return text, first


def main(path: str, threads: str, context: str) -> None:
    """Answers what comes from stdin."""
    llama_cpp.llama_cpp.llama_model_default_params = model_params  # `Llama` has no option for it
    llama = ImposedLlama(
        path,
        n_ctx=int(context),
        n_threads=int(threads),
        n_threads_batch=int(threads),
        n_gpu_layers=-1,
        flash_attn=True,
        verbose=False,
    )
    serve(lambda ask: answer(llama, ask))


if __name__ == "__main__":
    main(*sys.argv[1:])
