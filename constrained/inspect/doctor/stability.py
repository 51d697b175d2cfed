"""Checks whether each prompt of a conversation begins with what the KV cache already has.

The next prompt has to begin with the last prompt and what the model wrote after it. All tokens
after the first difference have to be computed again.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary
from constrained.errors import TemplateError
from constrained.inspect.doctor.conversations import TOOLS, Message, Shape
from constrained.prompt.format_selection.selection import SelectedFormat
from constrained.prompt.job import Job, Recall
from constrained.prompt.prompts import Prompts
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import RenderError, ToolError
from grammars.infer.reasoning import count_calls, find_state
from grammars.parse.render import render
from grammars.turn import Start, State, Tool, ToolCall, Turn
from grammars.wire.format import count_common

_REMEMBERED = 1_000_000  # tokens
_CONTEXT = 24  # characters on each side of a difference
_MAX_OPENER = 40  # characters of the opener of a reasoning block
Kwargs = Mapping[str, Any]


class Contract(StrEnum):
    """Which text has to begin with which other text."""

    PROMPT = "prompt"
    """A prompt; the next one begins with it."""
    TURN = "turn"
    """A prompt with what the model wrote; the next prompt begins with it."""


@dataclass(frozen=True)
class Break:
    """A contract that does not hold."""

    contract: Contract
    turn: int  # its number, from 1
    offset: int  # the number of common bytes of the two texts
    earlier: str  # the earlier text around that place
    later: str  # the later text there
    lost: int  # how many tokens of the earlier text come after it, and are computed again
    drops_reasoning: bool  # the difference is reasoning, which the later text lacks


@dataclass(frozen=True)
class Walk:
    """The result of checking a conversation, turn by turn, with the same template variables."""

    shape: Shape
    kwargs: Kwargs
    breaks: tuple[Break, ...] = ()  # the first break of each contract
    refused: str = ""  # why the template does not render it; "" if it does
    # all rendered texts, to find equal walks
    texts: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_stable(self) -> bool:
        return not self.breaks and not self.refused


@dataclass(frozen=True)
class _Step:
    """A turn of the model."""

    number: int
    prompt: str  # the text that the turn answers
    written: str
    following: str  # the next prompt

    @property
    def whole(self) -> str:
        """The prompt, and what the model writes after it."""
        return self.prompt + self.written


class Walker:
    """Walks through conversations with one template.

    Args:
        selected: the format, and the template.
        vocabulary: counts tokens; None: four characters are one.
    """

    def __init__(self, selected: SelectedFormat, vocabulary: Vocabulary | None = None):
        self._selected = selected
        self._vocabulary = vocabulary

    def walk(self, shape: Shape, kwargs: Kwargs) -> Walk:
        if self._selected.format.reasoning is None:
            shape = shape.without_reasoning()
        try:
            return self._walk(shape, kwargs)
        except TemplateError as e:
            refused = e.message
        try:
            return self._walk(shape.without_system(), kwargs)
        except TemplateError:
            return Walk(shape, kwargs, refused=refused)

    def measure_kept(self, walk: Walk, recall: Recall) -> float:
        """Returns the fraction of the tokens that this project reuses: its turn cache puts the
        tokens of earlier turns into the next prompt, instead of what the template would write.

        Raises:
            Error: a prompt cannot be composed.
        """
        format = self._selected.format
        markers = dict.fromkeys((*format.markers, *format.ends))
        vocabulary = byte_vocabulary(tuple(markers))
        prompts = Prompts(vocabulary, (format,), remembered=_REMEMBERED)
        shape = walk.shape
        seen: tuple[int, ...] = ()
        total = kept = 0
        for index in (*shape.turns, len(shape.messages)):
            job = Job(
                shape.sent[:index],
                tools=shape.tools,
                template_kwargs=walk.kwargs,
                recall=recall,
            )
            prompt = prompts.compose(job, shape.tools, self._selected)
            if seen:
                total += len(seen)
                kept += count_common(seen, tuple(prompt.tokens))
            if index == len(shape.messages):
                break
            text = self._write(shape.messages[index], prompt.state)
            tokens = vocabulary.encode(text)
            prompts.keep(prompt, tokens, shape.messages[index])
            seen = (*prompt.tokens, *tokens)
        return kept / total if total else 1.0

    def _walk(self, shape: Shape, kwargs: Kwargs) -> Walk:
        texts: list[str] = []
        first: dict[Contract, Break] = {}
        opened = self._render(shape, shape.turns[0], kwargs)
        closed = self._render(shape, shape.turns[0], kwargs, opened=False)
        if find_state(opened, closed, self._selected.format).start is Start.CLOSED:
            shape = shape.without_reasoning()  # the format has no place for it
        for step in self._list_steps(shape, kwargs):
            texts += [step.whole, step.following]
            found = self._check_turn(shape, step, first)
            if found is not None:
                first[found.contract] = found
        return Walk(shape, kwargs, tuple(first.values()), texts=tuple(texts))

    def _list_steps(self, shape: Shape, kwargs: Kwargs) -> Iterator[_Step]:
        bounds = (*shape.turns, len(shape.messages))
        for number, (index, following) in enumerate(itertools.pairwise(bounds), 1):
            prompt = self._render(shape, index, kwargs)
            closed = self._render(shape, index, kwargs, opened=False)
            calls = count_calls(shape.messages[:index])
            state = find_state(prompt, closed, self._selected.format, calls=calls)
            yield _Step(
                number,
                prompt=prompt,
                written=self._write(shape.messages[index], state),
                following=self._render(shape, following, kwargs),
            )

    def _render(self, shape: Shape, count: int, kwargs: Kwargs, *, opened: bool = True) -> str:
        messages = shape.sent[:count]
        return self._selected.template.render(
            messages, shape.tools, add_generation_prompt=opened, **kwargs
        )

    def _write(self, message: Message, state: State) -> str:
        """Returns what the model writes for this message, after the prompt."""
        reasoning = message.get("reasoning_content") or ""
        if state.start is Start.CLOSED:
            reasoning = ""
        calls: list[ToolCall] = []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls.append(ToolCall(function["name"], function["arguments"], id=call["id"]))
        turn = Turn(message["content"] or "", reasoning, tuple(calls))
        try:
            return render(turn, self._selected.format, _lower_tools(), state)
        except (RenderError, ToolError):  # the format cannot write it: only the prompt is compared
            return ""

    def _check_turn(self, shape: Shape, step: _Step, known: Collection[Contract]) -> Break | None:
        """Checks whether the next prompt begins with the prompt and the turn; None: it does, or
        such a break is known."""
        if step.following.startswith(step.whole):
            return None
        offset = count_common(step.whole, step.following)
        rest = step.whole[offset:]
        lost = -(-len(rest) // 4)
        if self._vocabulary is not None:
            lost = len(self._vocabulary.encode_special(rest, inside=True))
        contract = Contract.PROMPT if offset < len(step.prompt) else Contract.TURN
        if contract in known:
            return None
        around = slice(max(0, offset - _CONTEXT), offset + _CONTEXT)
        return Break(
            contract,
            step.number,
            offset=len(step.whole[:offset].encode(errors="replace")),
            earlier=step.whole[around],
            later=step.following[around],
            lost=lost,
            drops_reasoning=_drops_reasoning(shape, step, offset),
        )


def _drops_reasoning(shape: Shape, step: _Step, offset: int) -> bool:
    """Returns whether the texts differ from this offset on because the next prompt lacks
    reasoning."""
    thoughts = [message.get("reasoning_content") or "" for message in shape.messages]
    lost = [thought for thought in thoughts if thought not in step.following]
    return any(thought in step.whole[offset:][: _MAX_OPENER + len(thought)] for thought in lost)


@cache
def _lower_tools() -> tuple[Tool, ...]:
    return read_tools(TOOLS)
