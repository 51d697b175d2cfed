"""Prompts: what the template writes, as tokens, behind the turns that the model has generated."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from constrained.cache_scope import COMMON
from constrained.errors import RequestError, check_count
from constrained.format_selection.selection import SelectedFormat
from constrained.job import Job, Recall
from constrained.messages import copy_json, normalise
from constrained.prompt.cache_breakpoints import (
    NO_BREAKPOINTS,
    CacheBreakpoints,
    SharedPrefixes,
    TokenizedPrompt,
)
from constrained.prompt.encoding import check_text, encode_pieces, encode_prompt
from constrained.prompt.prompt_reuse import Messages, Missed, RenderedHistory
from constrained.prompt.turn_boundaries import TurnBoundaries
from constrained.prompt.turn_cache import (
    CachedTurn,
    History,
    TurnCache,
    TurnStore,
    digest,
    writes_ids,
)
from constrained.prompt.unread_messages import check_roles_are_read
from constrained.template.special_tokens import Prompt, render_prompt
from constrained.tools.shapes import as_openai
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.byte_cache import CacheSize
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
        reasoning: indexes of the messages whose reasoning is in the prompt.
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
        closed: the text without the generation prompt; None: it has none.
    """

    rendered: Prompt
    tokens: tuple[int, ...]
    state: State
    key: bytes = b""
    reuse: Reuse = field(default_factory=Reuse)
    breakpoints: CacheBreakpoints = NO_BREAKPOINTS
    closed: str | None = None

    @property
    def text(self) -> str:
        """The prompt as one text."""
        return self.rendered.text


@dataclass(frozen=True)
class _Scene:
    """All that a prompt depends on, besides the messages.

    Args:
        names: texts that the tokenizer, or the format, would take for structure.
        scope: of those who may know what comes of it.
    """

    teaching: SelectedFormat
    tools: Sequence[Mapping[str, Any]]
    variables: Mapping[str, Any]
    names: frozenset[str]
    scope: str = COMMON

    @cached_property
    def key(self) -> bytes:
        return digest([*self.tools], dict(self.variables), self.scope)

    def write(self, messages: Messages, *, opened: bool = True) -> Prompt:
        """The prompt for a conversation; `opened`: with the generation prompt."""
        block = self.teaching.format.reasoning
        keep = () if block is None else block.markers
        return render_prompt(
            self.teaching.template,
            messages,
            self.tools or None,
            markers=self.names,
            keep=keep,
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
        *,
        remembered: int,
        context_length: int | None = None,
    ):
        self._vocabulary = vocabulary
        self._formats = formats
        self._context_length = context_length
        self._turns = TurnCache(remembered, with_ids=any(map(writes_ids, formats)))
        self._remembers = remembered > 0
        self._shared_prefixes = SharedPrefixes()

    def share_turns(self, store: TurnStore) -> None:
        """Keeps generated turns there, too, and finds those of other processes."""
        if self._remembers:
            self._turns.shared = store

    def measure_caches(self) -> dict[str, CacheSize]:
        """What is kept of earlier prompts and turns, by name."""
        return {"turns": self._turns.size, "shared_prefixes": self._shared_prefixes.size}

    def compose(self, job: Job, tools: Sequence[Any], teaching: SelectedFormat) -> ComposedPrompt:
        """The prompt of a job.

        Raises:
            TemplateError: the template refuses the messages, or leaves one out for its role.
            RequestError: the text has a lone surrogate.
            ContextError: the prompt is beyond any that could fit. One that is less too long is
                refused where it is generated from: its tokens can still be counted.
        """
        scene = _Scene(
            teaching=teaching,
            tools=as_openai(tools),
            variables=job.template_kwargs,
            names=self._names,
            scope=job.grammar_scope,
        )
        history = self._recall(job, scene)
        opened = scene.write(history.messages)
        check_text(opened.text, self._vocabulary, self._context_length)
        check_roles_are_read(
            history.messages, opened.text, lambda messages: scene.write(messages).text
        )
        # What the two renderings do not share is the generation prompt: it has the start state.
        closed = scene.write(history.messages, opened=False)
        tokens, reuse = self._encode(opened, scene, history, recall=Recall(job.recall))
        tokenized = TokenizedPrompt(
            text=opened.text, tokens=tokens, reused=reuse.tokens, vocabulary=self._vocabulary
        )
        shared = self._shared_prefixes.measure(
            scene.key,
            history.messages,
            tokens=tokens,
            encode=partial(self._encode_plain, scene),
        )
        write = partial(scene.write, opened=False)
        positions = tokenized.find_breakpoints(job.breakpoints, history.messages, write)
        if shared:
            positions.add(shared)
        calls = count_calls(job.messages)
        return ComposedPrompt(
            rendered=opened,
            tokens=tokens,
            state=find_state(opened.text, closed.text, teaching.format, calls=calls),
            key=history.key,
            reuse=reuse,
            breakpoints=CacheBreakpoints(
                shared=shared,
                places=tuple(sorted(positions)),
                closed=tokenized.count_closed(closed.text),
            ),
            closed=closed.text,
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
            shown_reasoning=prompt.reuse.reasoning,
        )
        self._turns.keep(prompt.key, turn)

    def _recall(self, job: Job, scene: _Scene) -> History:
        """The conversation, and which of its turns this model has generated."""
        with scene.teaching.template.failures():
            messages = normalise(job.messages)
        if not job.cache_prompt:
            return History(b"", messages)
        history = self._turns.recall(scene.key, messages)
        if job.recall == Recall.DROP:
            return replace(history, messages=messages)
        return history

    def _encode(
        self, prompt: Prompt, scene: _Scene, history: History, *, recall: Recall
    ) -> tuple[tuple[int, ...], Reuse]:
        """The tokens of a prompt, and what of them is taken over from the turn cache."""
        format = scene.teaching.format
        boundaries = TurnBoundaries(format, {*format.ends, *self._ends})
        rendered = RenderedHistory(history, prompt, write=scene.write, boundaries=boundaries)
        reasoning = frozenset[int]()
        if self._remembers:
            reasoning = rendered.find_reasoning()
        found = rendered.find_reusable(recall, reasoning)
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
        names = set(self._vocabulary.named.values())
        for format in self._formats:
            names.update(format.markers)
        return frozenset(names)


def _without_space(rest: Prompt, written: str) -> Prompt:
    """The text behind a turn, without the white space that the model has written already."""
    space = rest.text[: len(rest.text) - len(rest.text.lstrip())]
    for count in range(len(space), 0, -1):
        if written.endswith(space[:count]):
            return rest.tail(len(rest.text) - count)
    return rest


def _check_tokens(prompt: Sequence[int], count: int) -> tuple[int, ...]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)):
        hint = "Give a text, or a list of token ids"
        raise RequestError("the prompt is neither text nor tokens", where=_RAW, hint=hint)
    for i, token in enumerate(prompt):
        if type(token) is not int or not 0 <= token < count:
            message = f"{token!r} is not a token id: the model has 0 to {count - 1}"
            raise RequestError(message, where=f"{_RAW}/{i}")
    return tuple(prompt)
