"""Prompts: what the template writes, as tokens, behind what the model saw of the conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from constrained.format_selection.inferred import Teaching
from constrained.job import CompiledTurn, Composed, Job
from constrained.messages import normalise
from constrained.prompt.cache_breakpoints import count_closed, find_boundaries
from constrained.prompt.encoding import check_text, encode_pieces, encode_prompt
from constrained.prompt.prompt_reuse import Messages, Missed, Recall, Splice, find_thoughts, splice
from constrained.prompt.shared_prefix import Heads
from constrained.prompt.turn_boundaries import Bounds
from constrained.prompt.turn_cache import DecodedTurns, History, digest, make_decoded, writes_ids
from constrained.template.special_tokens import Prompt, render_prompt
from constrained.tools.shapes import as_openai
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.infer.reasoning import count_calls, find_state
from grammars.wire.format import Format

MOST_SPACE = 16  # tokens of white space at the end of a turn


@dataclass(frozen=True)
class _Scene:
    """What a prompt depends on beside the messages.

    Args:
        names: texts that the tokenizer, or the format, would take for structure.
    """

    teaching: Teaching
    tools: Sequence[Mapping[str, Any]]
    variables: Mapping[str, Any]
    names: frozenset[str]

    @cached_property
    def key(self) -> bytes:
        return digest([*self.tools], dict(self.variables))

    def write(self, messages: Messages, *, opened: bool = True) -> Prompt:
        """The prompt for a conversation; `opened`: with what invites the model to speak."""
        block = self.teaching.format.reasoning
        return render_prompt(
            self.teaching.template,
            messages,
            self.tools or None,
            markers=self.names,
            keep=[block.opener.text, block.closer.text] if block else [],
            add_generation_prompt=opened,
            variables=self.variables,
        )


class Prompts:
    """Writes the prompts of one model, and remembers what came of them.

    Args:
        vocabulary: that of the model.
        formats: all that its turns are written in.
        remembered: tokens of earlier turns to keep, see `DecodedTurns`; 0: none.
        context_length: in tokens; a prompt that fills it is refused. None: any prompt is written.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        formats: Sequence[Format],
        remembered: int,
        context_length: int | None = None,
    ):
        self._vocabulary = vocabulary
        self._formats = formats
        self._context_length = context_length
        self._decoded = DecodedTurns(remembered, with_ids=any(map(writes_ids, formats)))
        self._remembers = remembered > 0
        self._heads = Heads()

    def compose(self, job: Job, tools: Sequence[Any], teaching: Teaching) -> Composed:
        """The prompt of a job.

        Raises:
            TemplateError: the template refuses the messages.
            RequestError: the text has a lone surrogate.
            ContextError: the prompt is beyond any that could fit. One that is less too long is
                refused where it is generated from: whoever counts its tokens is told them.
        """
        scene = _Scene(teaching, as_openai(tools), job.template_kwargs, self._names)
        history = self._recall(job, scene)
        prompt = scene.write(history.messages)
        check_text(prompt.text, self._vocabulary, self._context_length)
        plain = scene.write(history.messages, opened=False)
        state = find_state(prompt.text, plain.text, teaching.format, count_calls(job.messages))
        bounds = Bounds(teaching.format, {*teaching.format.ends, *self._ends})
        thoughts = find_thoughts(history, scene.write) if self._remembers else frozenset[int]()
        found = splice(history, prompt, scene.write, Recall(job.recall), bounds, thoughts)
        spliced, missed = (None, found) if isinstance(found, Missed) else (found, None)
        tokens, rest = self._encode(prompt, spliced)
        thoughts = spliced.thoughts if spliced else thoughts
        before = spliced.turn if spliced else None
        head = self._heads.measure(scene.key, history.messages, tokens, partial(self._ask, scene))
        boundaries = {head} - {0}
        if job.breakpoints:
            write = partial(scene.write, opened=False)
            boundaries |= find_boundaries(
                job.breakpoints, history.messages, prompt, tokens, rest, write, self._vocabulary
            )
        pinned = tuple(sorted(boundaries))
        closed = count_closed(prompt.text, plain.text, tokens, self._vocabulary)
        seen = before, rest, missed
        return Composed(prompt, tokens, state, history.key, thoughts, *seen, head, pinned, closed)

    def keep(self, turn: CompiledTurn, tokens: Sequence[int], message: Mapping[str, Any]) -> None:
        """Keeps what came of a turn: a conversation that carries the message back, behind what it
        went on with, goes on from these tokens. A prompt that is no conversation has no key."""
        if not turn.key:
            return
        prefix = turn.prefix
        prompt = turn.tokens[: len(turn.tokens) - len(prefix.tokens)]
        whole = (*prefix.tokens, *tokens)
        turn_kept = make_decoded(
            turn.before, prompt, turn.rest, whole, prefix.join(message), turn.thoughts
        )
        self._decoded.keep(turn.key, turn_kept)

    def _recall(self, job: Job, scene: _Scene) -> History:
        """The conversation, and which of its turns this model has generated."""
        with scene.teaching.template.failures():
            messages = normalise(job.messages)
        history = self._decoded.recall(scene.key, messages)
        return history if job.recall != Recall.DROP else replace(history, messages=messages)

    def _encode(self, prompt: Prompt, spliced: Splice | None) -> tuple[tuple[int, ...], int | None]:
        """The tokens, and how many there are behind those that are taken over."""
        if spliced is None:
            return encode_prompt(prompt, self._vocabulary), None
        written = self._vocabulary.text(spliced.turn.tokens[-MOST_SPACE:]).decode(errors="replace")
        rest = encode_pieces(_without_space(spliced.rest, written), self._vocabulary, inside=True)
        return (*spliced.turn.all_tokens, *rest), len(rest)

    def _ask(self, scene: _Scene, messages: Messages) -> tuple[int, ...]:
        return encode_prompt(scene.write(messages), self._vocabulary)

    @cached_property
    def _ends(self) -> frozenset[str]:
        names = self._vocabulary.names
        return frozenset(names[token] for token in self._vocabulary.end if token in names)

    @cached_property
    def _names(self) -> frozenset[str]:
        names = {name for name in self._vocabulary.names.values() if len(name.strip()) > 1}
        markers = {marker for format in self._formats for marker in format.markers}
        return frozenset(names | markers)


def _without_space(rest: Prompt, written: str) -> Prompt:
    """What is behind a turn, without the white space that the model has written already."""
    space = rest.text[: len(rest.text) - len(rest.text.lstrip())]
    known = next((n for n in range(len(space), 0, -1) if written.endswith(space[:n])), 0)
    return rest.tail(len(rest.text) - known) if known else rest
