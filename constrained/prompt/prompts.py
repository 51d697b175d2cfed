"""Composes prompts: the text of the template as tokens, reusing those of earlier turns."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError, check_count, make_overflow
from constrained.prompt.cache_breakpoints import (
    NO_BREAKPOINTS,
    CacheBreakpoints,
    SharedPrefixes,
    TokenizedPrompt,
)
from constrained.prompt.cache_scope import COMMON
from constrained.prompt.format_selection.selection import SelectedFormat
from constrained.prompt.job import Job, Recall
from constrained.prompt.messages import check_parts, copy_json, normalise
from constrained.prompt.prompt_reuse import Messages, RenderedHistory, Reuse
from constrained.prompt.template.arrival import check_arrival, note_forms
from constrained.prompt.template.conversation_forms import ConversationForm
from constrained.prompt.template.special_tokens import Prompt, render_prompt
from constrained.prompt.turn_boundaries import TurnBoundaries
from constrained.prompt.turn_cache import (
    CachedTurn,
    History,
    TurnCache,
    TurnStore,
    digest,
    writes_ids,
)
from grammars.infer.reasoning import count_calls, find_state
from grammars.limits.byte_cache import CacheSize
from grammars.turn import State
from grammars.wire.format import Format, JsonCall, Marker

MAX_SPACE = 16  # tokens of white space at the end of a turn
_RAW = "/prompt"
TEXT = Format(name="text", call=(Marker("<tool_call>"), JsonCall(), Marker("</tool_call>")))
"""The format of the content after a raw prompt. A format must have calls, but without tools there
are none."""


def check_text(text: str, vocabulary: Vocabulary, context_length: int | None) -> None:
    """Raises ContextError if a text is too long to fit into the context. Tokenising millions of
    characters would take minutes. None: there is no limit."""
    if context_length is None:
        return
    size = len(text.encode(errors="surrogatepass"))
    if size > context_length * vocabulary.longest:
        least = size // vocabulary.longest
        problem = f"your messages resulted in {least} tokens or more ({size} bytes)"
        raise make_overflow(context_length, problem, least)


def encode_prompt(prompt: Prompt, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Encodes a prompt; adds BOS if the model needs one. RequestError: a lone surrogate."""
    tokens = encode_pieces(prompt, vocabulary)
    bos = vocabulary.bos
    if bos is not None and tokens[:1] != [bos]:  # most templates write it themselves
        tokens.insert(0, bos)
    return tuple(tokens)


def encode_pieces(prompt: Prompt, vocabulary: Vocabulary, *, inside: bool = False) -> list[int]:
    tokens: list[int] = []
    try:
        for piece in prompt.pieces:
            tokens += vocabulary.encode_special(piece, inside=inside)
            inside = True  # SentencePiece adds no space before text that continues other text
    except UnicodeEncodeError as e:
        hint = "Replace it in the messages or tools"
        raise RequestError("the prompt has a lone surrogate", hint=hint) from e
    return tokens


@dataclass(frozen=True)
class ComposedPrompt:
    """A prompt as text and as tokens.

    Args:
        key: the key of the conversation in the turn cache; b"" if the prompt is no conversation.
    """

    rendered: Prompt
    tokens: tuple[int, ...]
    state: State
    key: bytes = b""
    reuse: Reuse = field(default_factory=Reuse)
    breakpoints: CacheBreakpoints = NO_BREAKPOINTS
    forms: tuple[ConversationForm, ...] = ()

    @property
    def text(self) -> str:
        return self.rendered.text


@dataclass(frozen=True)
class _RenderContext:
    """All that a prompt depends on, except for the messages; `names`: texts that data must not
    contain as special tokens or markers."""

    selected: SelectedFormat
    tools: Sequence[Mapping[str, Any]]
    variables: Mapping[str, Any]
    names: frozenset[str]
    scope: str = COMMON

    @cached_property
    def key(self) -> bytes:
        return digest([*self.tools], dict(self.variables), self.scope)

    def write(self, messages: Messages, *, opened: bool = True) -> Prompt:
        block = self.selected.format.reasoning
        keep = () if block is None else block.markers
        return render_prompt(
            self.selected.template,
            messages,
            self.tools or None,
            markers=self.names,
            keep=keep,
            add_generation_prompt=opened,
            variables=self.variables,
        )


class Prompts:
    """Composes the prompts of one model, and caches the turns that it has generated, up to
    `remembered` tokens. A prompt that fills `context_length` tokens is refused."""

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
        """Also keeps turns in this store, and finds those of other processes there."""
        if self._remembers:
            self._turns.shared = store

    def measure_caches(self) -> dict[str, CacheSize]:
        return {"turns": self._turns.size, "shared_prefixes": self._shared_prefixes.size}

    def compose(
        self, job: Job, tools: Sequence[Mapping[str, Any]], selected: SelectedFormat
    ) -> ComposedPrompt:
        """Composes the prompt of a job. TemplateError: the template refuses the messages, or one is
        not in the prompt. RequestError: a lone surrogate. ContextError: it is far too long; one
        that is only a little too long is refused when a turn is generated, so that its tokens can
        be counted."""
        context = _RenderContext(
            selected=selected,
            tools=tools,
            variables=job.template_kwargs,
            names=self._list_names(selected.format),
            scope=job.grammar_scope,
        )
        history = self._recall(job, context)
        with note_forms() as forms:
            opened = context.write(history.messages)
        check_text(opened.text, self._vocabulary, self._context_length)
        check_arrival(history.messages, opened.text, lambda messages: context.write(messages).text)
        # The two renderings differ by the generation prompt, which determines the start state.
        closed = context.write(history.messages, opened=False)
        tokens, reuse = self._encode(opened, context, history, recall=Recall(job.recall))
        tokenized = TokenizedPrompt(
            text=opened.text, tokens=tokens, reused=reuse.tokens, vocabulary=self._vocabulary
        )
        shared = self._shared_prefixes.measure(
            context.key,
            history.messages,
            tokens=tokens,
            encode=lambda messages: encode_prompt(context.write(messages), self._vocabulary),
        )
        write = partial(context.write, opened=False)
        positions = tokenized.find_breakpoints(job.breakpoints, history.messages, write)
        if shared:
            positions.add(shared)
        calls = count_calls(job.messages)
        return ComposedPrompt(
            rendered=opened,
            tokens=tokens,
            state=find_state(opened.text, closed.text, selected.format, calls=calls),
            key=history.key,
            reuse=reuse,
            breakpoints=CacheBreakpoints(
                shared=shared,
                places=tuple(sorted(positions)),
                closed=tokenized.count_closed(closed.text),
            ),
            forms=tuple(sorted(forms)),
        )

    def compose_raw(self, prompt: str | Sequence[int]) -> ComposedPrompt:
        """Makes a prompt without a chat template. In text, names of special tokens are these
        tokens, and BOS is added if the model needs one; token ids are used as they are.
        RequestError: it is empty, or neither text nor tokens of this model. ContextError: it fills
        the context."""
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
        """Caches the turn that a prompt got, without its end and with arguments as objects, unless
        the prompt is no conversation."""
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

    def _recall(self, job: Job, context: _RenderContext) -> History:
        with context.selected.template.failures():
            messages = normalise(job.messages)
        check_parts(messages)
        context.selected.template.check_arguments(messages)
        if not job.cache_prompt:
            return History(b"", messages)
        history = self._turns.recall(context.key, messages)
        if job.recall == Recall.DROP:
            return replace(history, messages=messages)
        return history

    def _encode(
        self, prompt: Prompt, context: _RenderContext, history: History, *, recall: Recall
    ) -> tuple[tuple[int, ...], Reuse]:
        format = context.selected.format
        boundaries = TurnBoundaries(format, {*format.ends, *self._ends})
        rendered = RenderedHistory(history, prompt, write=context.write, boundaries=boundaries)
        reasoning = frozenset[int]()
        if self._remembers:
            reasoning = rendered.find_reasoning()
        reuse = rendered.find_reusable(recall, reasoning)
        if reuse.turn is None:
            return encode_prompt(prompt, self._vocabulary), reuse
        written = self._vocabulary.text(reuse.turn.tokens[-MAX_SPACE:]).decode(errors="replace")
        rest = encode_pieces(_without_space(reuse.rest, written), self._vocabulary, inside=True)
        return (*reuse.turn.all_tokens, *rest), reuse

    @cached_property
    def _ends(self) -> frozenset[str]:
        names = self._vocabulary.names
        return frozenset(names[token] for token in self._vocabulary.end if token in names)

    def _list_names(self, format: Format) -> frozenset[str]:
        is_own = format not in self._formats
        return self._names.union(format.markers) if is_own else self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        names = set(self._vocabulary.named.values())
        for format in self._formats:
            names.update(format.markers)
        return frozenset(names)


def _without_space(rest: Prompt, written: str) -> Prompt:
    """Removes from the text after a turn the white space that the model has already written."""
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
