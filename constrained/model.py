"""A model ready for calls: a GGUF file, its chat template, and what they say about tool calls."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from constrained.compiling import CompiledTurn, Compiler, Job
from constrained.engine.protocol import Engine, Sampling
from constrained.errors import GrammarError, TemplateError
from constrained.generation import Request, generate
from constrained.reply import Reply, make_reply
from constrained.template import ChatTemplate


class Model:
    """One model in this process. Not for two threads at once.

    Args:
        engine: runs the model.
        template: its chat template.

    Raises:
        TemplateError, DetectError: the template is broken, or its tool-call format unknown.
    """

    def __init__(self, engine: Engine, template: ChatTemplate):
        self.engine = engine
        self.compiler = Compiler(engine.vocabulary, template)

    def call(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        tool_choice: Any = None,
        max_tokens: int = 1024,
        sampling: Sampling | None = None,
        **options: Any,
    ) -> Reply:
        """Generates one assistant turn.

        Args:
            messages: the conversation, or the text of a user message.
            tools: what may be called.
            tool_choice: "auto", "none", "required", or a tool, in the OpenAI or Anthropic form.
            max_tokens: generate at most so many tokens.
            sampling: how tokens are drawn.
            options: further fields of `Job`.

        Raises:
            Error: one of `constrained.errors` or `grammars.errors`; says what, where, what to do.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        turn = self.compile(Job(messages, tools or (), tool_choice, **options))
        return self.run([turn], max_tokens=max_tokens, sampling=sampling)[0]

    def compile(self, job: Job) -> CompiledTurn:
        """The prompt and the grammar of a job; see `Compiler.compile`."""
        return self.compiler.compile(job)

    def run(
        self,
        turns: Sequence[CompiledTurn],
        *,
        max_tokens: int = 1024,
        sampling: Sampling | None = None,
        force: bool = True,
    ) -> list[Reply]:
        """Generates several turns together; see `generate` and `make_reply` for the errors."""
        sampling = sampling or Sampling()
        requests = [
            Request(
                turn.tokens,
                turn.matcher.fork() if turn.matcher else None,
                turn.parser(),
                sampling,
                max_tokens,
                force,
            )
            for turn in turns
        ]
        try:
            replies = generate(self.engine, requests)
        except GrammarError:
            self.compiler.forget()
            raise
        return [make_reply(g, t.tokens) for g, t in zip(replies, turns, strict=True)]

    def close(self) -> None:
        """Frees the model."""
        self.engine.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(
    path: str | os.PathLike[str],
    *,
    chat_template: str | None = None,
    context_length: int = 4096,
    sequences: int = 1,
    threads: int | None = None,
    gpu_layers: int = -1,
    flash_attention: bool | None = None,
    progress: Callable[[float], None] | None = None,
) -> Model:
    """Loads a GGUF file.

    Args:
        path: the file.
        chat_template: Jinja text to use in place of the one in the file.
        context_length: tokens of each sequence; 0: as many as the model was trained on.
        sequences: how many turns can be generated together.
        threads: None for one per physical core.
        gpu_layers: layers on the GPU, if there is one; -1: all.
        flash_attention: None lets llama.cpp decide.
        progress: is told the part loaded, 0 to 1.

    Raises:
        ModelError: the file is missing, damaged or not supported.
        TemplateError: it has no chat template, or a broken one.
        DetectError: the template writes tool calls in a format that is not known.
    """
    from constrained.engine.llamacpp import load as load_engine

    engine = load_engine(
        path,
        context_length=context_length,
        sequences=sequences,
        threads=threads,
        gpu_layers=gpu_layers,
        flash_attention=flash_attention,
        progress=progress,
    )
    try:
        source = chat_template or engine.chat_template
        if not source:
            hint = "Name one with --chat-template-file"
            raise TemplateError(f"{Path(path).name} has no chat template", hint=hint)
        tokens = {"bos_token": engine.bos_text, "eos_token": engine.eos_text}
        return Model(engine, ChatTemplate(source, **tokens, name=Path(path).name))
    except BaseException:
        engine.close()
        raise
