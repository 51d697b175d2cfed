"""Prompts: what the template writes, as tokens, behind the turns that the model has generated."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from constrained.errors import RequestError, check_count
from constrained.format_selection.selection import SelectedFormat
from constrained.job import Job, Recall
from constrained.messages import copy_json, normalise
from constrained.prompt.cache_breakpoints import (
    NO_BREAKPOINTS,
    CacheBreakpoints,
    SharedPrefixes,
    count_closed,
    find_breakpoints,
)
from constrained.prompt.encoding import check_text, encode_pieces, encode_prompt
from constrained.prompt.prompt_reuse import Messages, Missed, find_reasoning, find_reusable
from constrained.prompt.turn_boundaries import TurnBoundaries
from constrained.prompt.turn_cache import CachedTurn, History, TurnCache, digest, writes_ids
from constrained.template.special_tokens import Prompt, render_prompt
from constrained.tools.shapes import as_openai
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.infer.reasoning import count_calls, find_state
from grammars.turn import State
from grammars.wire.format import Format, JsonCall, Marker

MOST_SPACE = 16  # tokens of white space at the end of a turn
_RAW = "/prompt"
TEXT = Format(name="text", call=(Marker("<tool_call>"), JsonCall(), Marker("</tool_call>")))
"""Content alone, as it is written. Every format has calls; where no tools are, none is read."""


@dataclass(frozen=True)
class Reuse:
    """The tokens that a prompt takes over from the turns that the model has generated.

    Args:
        turn: the last of them, taken over as the model wrote it; None: there is none.
        tokens: how many first tokens of the prompt are taken over, those of that turn the last.
        missed: why there is none.
        reasoning: places of the messages whose reasoning is in the prompt.
    """

    turn: CachedTurn | None = None
    tokens: int = 0
    missed: Missed | None = None
    reasoning: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ComposedPrompt:
    """A prompt as text and as tokens.

    Args:
        rendered: what the template writes.
        tokens: what the model reads: of turns that it has generated those tokens.
        state: where the prompt ends.
        key: names the conversation in the turn cache; empty if the prompt is no conversation.
        reuse: what is taken over from that cache.
        breakpoints: first tokens that other prompts are likely to share.
    """

    rendered: Prompt
    tokens: tuple[int, ...]
    state: State
    key: bytes = b""
    reuse: Reuse = field(default_factory=Reuse)
    breakpoints: CacheBreakpoints = NO_BREAKPOINTS

    @property
    def text(self) -> str:
        """The prompt as one text."""
        return self.rendered.text


@dataclass(frozen=True)
class _Scene:
    """What a prompt depends on beside the messages.

    Args:
        names: texts that the tokenizer, or the format, would take for structure.
    """

    teaching: SelectedFormat
    tools: Sequence[Mapping[str, Any]]
    variables: Mapping[str, Any]
    names: frozenset[str]

    @cached_property
    def key(self) -> bytes:
        return digest([*self.tools], dict(self.variables))

    def write(self, messages: Messages, *, opened: bool = True) -> Prompt:
        """The prompt for a conversation; `opened`: with the generation prompt."""
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
    """Composes the prompts of one model, and caches the turns that came of them.

    Args:
        vocabulary: that of the model.
        formats: all that its turns are written in.
        remembered: tokens of earlier turns to keep, see `TurnCache`; 0: none.
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
        self._turns = TurnCache(remembered, with_ids=any(map(writes_ids, formats)))
        self._remembers = remembered > 0
        self._shared_prefixes = SharedPrefixes()

    def compose(self, job: Job, tools: Sequence[Any], teaching: SelectedFormat) -> ComposedPrompt:
        """The prompt of a job.

        Raises:
            TemplateError: the template refuses the messages.
            RequestError: the text has a lone surrogate.
            ContextError: the prompt is beyond any that could fit. One that is less too long is
                refused where it is generated from: whoever counts its tokens is told them.
        """
        scene = _Scene(teaching, as_openai(tools), job.template_kwargs, self._names)
        history = self._recall(job, scene)
        opened = scene.write(history.messages)
        check_text(opened.text, self._vocabulary, self._context_length)
        closed = scene.write(history.messages, opened=False)
        tokens, reuse = self._encode(opened, scene, history, Recall(job.recall))
        shared = self._shared_prefixes.measure(
            scene.key, history.messages, tokens, partial(self._encode_plain, scene)
        )
        places = {shared} - {0}
        if job.breakpoints:
            places |= find_breakpoints(
                job.breakpoints,
                history.messages,
                prompt=opened,
                tokens=tokens,
                reused=reuse.tokens,
                write=partial(scene.write, opened=False),
                vocabulary=self._vocabulary,
            )
        return ComposedPrompt(
            rendered=opened,
            tokens=tokens,
            state=find_state(
                opened.text, closed.text, teaching.format, calls=count_calls(job.messages)
            ),
            key=history.key,
            reuse=reuse,
            breakpoints=CacheBreakpoints(
                shared=shared,
                places=tuple(sorted(places)),
                closed=count_closed(opened.text, closed.text, tokens, self._vocabulary),
            ),
        )

    def compose_raw(self, prompt: str | Sequence[int]) -> ComposedPrompt:
        """A prompt as it stands, which no template writes.

        Args:
            prompt: text, in which the names of special tokens are these, and which gets a BOS in
                front if the model wants it; or token ids, which are taken as they are.

        Raises:
            RequestError: it is empty, or neither text nor tokens of this model.
            ContextError: it fills the context.
        """
        if isinstance(prompt, str):
            check_text(prompt, self._vocabulary, self._context_length)
            text = Prompt((prompt,))
            try:
                tokens = encode_prompt(text, self._vocabulary)
            except RequestError as e:
                raise RequestError(e.message, where=_RAW, hint="Replace it") from e
        else:
            tokens = _check_tokens(prompt, len(self._vocabulary.tokens))
            text = Prompt((self._vocabulary.text(tokens).decode("utf-8", "replace"),))
        if not tokens:
            raise RequestError("the prompt is empty", where=_RAW, hint="Give a text, or tokens")
        check_count(len(tokens), self._context_length)
        return ComposedPrompt(text, tokens, State())

    def keep(
        self, prompt: ComposedPrompt, tokens: Sequence[int], message: Mapping[str, Any]
    ) -> None:
        """Caches the turn that came of a prompt: a conversation that carries the message back goes
        on from its tokens. A prompt that is no conversation has none.

        Args:
            prompt: what the turn answers.
            tokens: all that is behind the prompt, without the end of the turn.
            message: the turn in OpenAI form, arguments as objects.
        """
        if not prompt.key:
            return
        turn = CachedTurn(
            before=prompt.reuse.turn,
            added=array("i", prompt.tokens[prompt.reuse.tokens :]),
            tokens=array("i", tokens),
            message=copy_json(message),
            reasoning_places=prompt.reuse.reasoning,
        )
        self._turns.keep(prompt.key, turn)

    def _recall(self, job: Job, scene: _Scene) -> History:
        """The conversation, and which of its turns this model has generated."""
        with scene.teaching.template.failures():
            messages = normalise(job.messages)
        history = self._turns.recall(scene.key, messages)
        if job.recall == Recall.DROP:
            return replace(history, messages=messages)
        return history

    def _encode(
        self, prompt: Prompt, scene: _Scene, history: History, recall: Recall
    ) -> tuple[tuple[int, ...], Reuse]:
        """The tokens of a prompt, and what of them is taken over from the turn cache."""
        reasoning = frozenset[int]()
        if self._remembers:
            reasoning = find_reasoning(history, scene.write)
        format = scene.teaching.format
        found = find_reusable(
            history,
            prompt,
            scene.write,
            recall=recall,
            boundaries=TurnBoundaries(format, {*format.ends, *self._ends}),
            reasoning=reasoning,
        )
        if isinstance(found, Missed):
            tokens = encode_prompt(prompt, self._vocabulary)
            return tokens, Reuse(missed=found, reasoning=reasoning)
        written = self._vocabulary.text(found.turn.tokens[-MOST_SPACE:]).decode(errors="replace")
        rest = encode_pieces(_without_space(found.rest, written), self._vocabulary, inside=True)
        reused = found.turn.all_tokens
        reuse = Reuse(turn=found.turn, tokens=len(reused), reasoning=found.reasoning)
        return (*reused, *rest), reuse

    def _encode_plain(self, scene: _Scene, messages: Messages) -> tuple[int, ...]:
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
    for count in range(len(space), 0, -1):
        if written.endswith(space[:count]):
            return rest.tail(len(rest.text) - count)
    return rest


def _check_tokens(prompt: Sequence[int], count: int) -> tuple[int, ...]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)):
        hint = "Give a text, or a list of token ids"
        raise RequestError("the prompt is neither text nor tokens", where=_RAW, hint=hint)
    for place, token in enumerate(prompt):
        if type(token) is not int or not 0 <= token < count:
            message = f"{token!r} is no token: the model has those from 0 to {count - 1}"
            raise RequestError(message, where=f"{_RAW}/{place}")
    return tuple(prompt)
