"""Turns without weights: the whole stack on random logits, for each of our formats."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.inputs.sources import read_teaching
from constrained.agent.model import Model
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from grammars.errors import PolicyError
from grammars.turn import Think
from grammars.wire.format import Format, TaggedArguments

VOCABULARIES = ("bytes, text", "bytes, token", "qwen2, token")
FOLLOW = 0.1
DRAW = Sampling(temperature=0)  # the logits are random already
CONTEXT = 2**20  # bytes are tokens, and some tool sets are long


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
        legal = [t for t in self._targets if self._matcher.count_accepted(t) == len(t)]
        if self._matcher.is_complete:
            legal.append([self._vocabulary.end[0]])
        return list(legal[self._random.integers(len(legal))]) if legal else []


def _targets(format: Format) -> list[str]:
    """Returns what the adversary likes to write: whatever the format spells out, and ends of
    values."""
    bare = ['{"name"'] if format.bare else []
    targets = [*format.reserved, *format.texts, *format.openings, '"', "}", "]", ")", *bare]
    hole = format.hole
    if isinstance(hole, TaggedArguments):
        targets += [hole.close + hole.open, hole.close + hole.end]
    return list(dict.fromkeys(targets))


class Stage:
    """A model that has a template and a vocabulary, and whose logits are set for each turn."""

    def __init__(self, template: str, vocabulary: Vocabulary):
        self._logits: Any = None
        engine = ScriptedEngine(
            vocabulary,
            lambda sequence, tokens: self._logits(sequence, tokens),
            context_length=CONTEXT,
        )
        self.teaching = read_teaching(template)
        # The logits follow the turn token by token; of a draft they could not go back.
        self.model = Model(engine, self.teaching.template, draft=False)

    def compile(self, job: Job) -> CompiledTurn:
        """Returns the turn; where the prompt has closed the reasoning, that is not required."""
        try:
            return self.model.compile(job)
        except PolicyError:
            if job.think is not Think.REQUIRED:
                raise
            return self.model.compile(replace(job, think=Think.OPTIONAL))

    def play(
        self, turn: CompiledTurn, seed: int, max_tokens: int, *, thinks: bool = False
    ) -> Reply:
        """Plays one turn of the adversary."""
        self._logits = Adversary(turn, seed, thinks=thinks)
        (reply,) = self.model.complete([turn], max_tokens=max_tokens, sampling=DRAW)
        return reply

    def render_next(self, messages: Sequence[Any], tools: Sequence[Any], reply: Reply) -> str:
        """Returns the prompt of the next turn, in which the client hands the reply back."""
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
    """Returns the stage of a format: one of TEMPLATES on one of VOCABULARIES."""
    kind, _, markers = vocabulary.partition(", ")
    if kind != "bytes":
        return Stage(template, real_vocabulary(kind))
    names = read_teaching(template).format.atoms if markers == "token" else ()
    return Stage(template, byte_vocabulary(names))


@lru_cache(maxsize=1)
def real_vocabulary(name: str) -> Vocabulary:
    """Returns one of llama.cpp's: llama-spm (32,000 tokens), qwen2 (151,936, with the markers that
    conversions add as tokens), gemma-4 (262,144), ..."""
    from constrained.engine.llama_files import read_header
    from examples.random_model import (
        MARKERS,
        read_vocabulary,
        vocabulary_file,
        with_markers,
        write_model,
    )

    path = vocabulary_file(name)
    if name != "qwen2":
        return read_header(path).vocabulary
    with TemporaryDirectory() as folder:
        tokens = with_markers(read_vocabulary(path), MARKERS)
        return read_header(write_model(Path(folder) / "model.gguf", tokens, None)).vocabulary
