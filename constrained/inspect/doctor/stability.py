"""Checks whether each prompt of a conversation begins with what the KV cache already has.

There are two contracts. History: the rendered text of a longer conversation begins with that of a
shorter one. Turns: the next prompt begins with the last prompt and what the model wrote after it.
All tokens after the first difference have to be computed again.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary
from constrained.errors import TemplateError
from constrained.inspect.doctor.conversations import SHAPES, TOOLS, Message, Shape
from constrained.inspect.template_trace.clauses import (
    Clause,
    explain_difference,
    find_choice,
    find_text,
    name_place,
)
from constrained.inspect.template_trace.tracing import Trace, TracedTemplate
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
_THOUGHT = "A thought that is in the content."
_CONTEXT = 24  # characters on each side of a difference
Kwargs = Mapping[str, Any]


class Contract(StrEnum):
    """Which text has to begin with which other text."""

    HISTORY = "history"
    """The text of a conversation without the generation prompt; the longer conversation begins with
    it."""
    PROMPT = "prompt"
    """A prompt; the next one begins with it."""
    TURN = "turn"
    """A prompt with what the model wrote; the next prompt begins with it."""


@dataclass(frozen=True)
class Break:
    """A contract that does not hold.

    Args:
        contract: the contract.
        turn: the number of the turn, from 1.
        offset: the number of common bytes of the two texts.
        earlier: the earlier text around that place.
        later: the later text around that place.
        lost: how many tokens of the earlier text come after it, and are computed again.
        clause: the clause of the template that makes the difference; None: not known.
        drops_reasoning: the later text lacks reasoning, which no clause writes.
    """

    contract: Contract
    turn: int
    offset: int
    earlier: str
    later: str
    lost: int
    clause: Clause | None = None
    drops_reasoning: bool = False


@dataclass(frozen=True)
class Walk:
    """The result of checking a conversation, turn by turn, with the same template variables.

    Args:
        shape: the conversation.
        kwargs: variables of the template.
        breaks: the first break of each contract.
        refused: why the template does not render it; "" if it does.
        texts: all rendered texts, to find equal walks.
    """

    shape: Shape
    kwargs: Kwargs
    breaks: tuple[Break, ...] = ()
    refused: str = ""
    texts: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_stable(self) -> bool:
        """True if both contracts hold."""
        return not self.breaks and not self.refused

    def find(self, contract: Contract) -> Break | None:
        """Returns the break of this contract; None: it holds."""
        return next((found for found in self.breaks if found.contract is contract), None)


@dataclass(frozen=True)
class _Step:
    """A turn of the model, and the prompts around it.

    Args:
        shape, kwargs: the conversation, and the variables of the template.
        number: of the turn, from 1.
        index: of the message that the model has written.
        next: index of the next one, or the number of messages.
        prompt: the text that the turn answers.
        closed: the same without the generation prompt.
        written: what the model writes.
        turned: the conversation with the turn, without a generation prompt.
        following: the next prompt.
        next_closed: the same without the generation prompt.
    """

    shape: Shape
    kwargs: Kwargs
    number: int
    index: int
    next: int
    prompt: str
    closed: str
    written: str
    turned: str
    following: str
    next_closed: str

    @property
    def whole(self) -> str:
        """The prompt, and what the model writes after it."""
        return self.prompt + self.written


class BreakExplainer:
    """Finds the clauses of one template that break contracts.

    Args:
        selected: the format, and the template.
    """

    def __init__(self, selected: SelectedFormat):
        self._selected = selected

    def explain_turn(self, step: _Step, found: Break, offset: int) -> Break:
        """Returns the break of a turn with the clause that causes it, or with the note that
        reasoning is not written at all."""
        if not step.following.startswith(step.turned[: offset + 1]):
            # Directly after the turn, the template still wrote it: later messages make the
            # difference.
            counts = step.index + 1, step.next
            clause = self.find_clause(step, counts, opened=(False, True))
            return replace(found, clause=clause)
        thought = step.shape.messages[step.index].get("reasoning_content")
        if thought and thought in step.written and thought not in step.following:
            clause = None
            if step.shape.returns_reasoning:
                clause = self.find_stripping(step.kwargs)
            return replace(found, clause=clause, drops_reasoning=True)
        trace = self._trace(step, step.next, opened=True)
        clause = None if trace is None else name_place(trace, offset)
        return replace(found, clause=clause)

    def find_stripping(self, kwargs: Kwargs) -> Clause | None:
        """Finds the clause that removes reasoning from the content of earlier turns; None: there is
        none, or such content is written unchanged."""
        block = self._selected.format.reasoning
        if block is None:
            return None
        question, answer, following = SHAPES[0].messages[:3]
        inline = block.opener.text + _THOUGHT + block.closer.text + answer["content"]
        messages = (question, {**answer, "content": inline}, following)
        stripped = self._traced.try_trace(messages, (), **kwargs)
        plain = self._traced.try_trace((question, answer, following), (), **kwargs)
        if stripped is None or plain is None:
            return None
        if _THOUGHT in stripped.text or answer["content"] not in stripped.text:
            return None
        return find_choice(plain, stripped) or find_text(stripped, block.closer.text)

    def find_clause(
        self, step: _Step, counts: tuple[int, int], *, opened: tuple[bool, bool]
    ) -> Clause | None:
        """Finds the clause that causes the first difference of two prompts of the first messages.

        Args:
            counts: the number of messages of each.
            opened: which of them has the generation prompt.
        """
        first, second = [
            self._trace(step, count, opened=is_opened)
            for count, is_opened in zip(counts, opened, strict=True)
        ]
        return explain_difference(first, second)

    def _trace(self, step: _Step, count: int, *, opened: bool) -> Trace | None:
        return self._traced.try_trace(
            step.shape.sent[:count], step.shape.tools, add_generation_prompt=opened, **step.kwargs
        )

    @cached_property
    def _traced(self) -> TracedTemplate:
        return TracedTemplate(self._selected.template)


class Walker:
    """Walks through conversations with one template.

    Args:
        selected: the format, and the template.
        vocabulary: counts tokens; None: four characters are one.
    """

    def __init__(self, selected: SelectedFormat, vocabulary: Vocabulary | None = None):
        self._selected = selected
        self._vocabulary = vocabulary
        self._explainer = BreakExplainer(selected)

    def walk(self, shape: Shape, kwargs: Kwargs) -> Walk:
        """Finds the first break of each contract."""
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

    def keeps_prompts(self, shape: Shape, kwargs: Kwargs) -> bool:
        """Returns whether every prompt begins with the last one and what the model wrote after
        it."""
        if self._selected.format.reasoning is None:
            shape = shape.without_reasoning()
        try:
            steps = self._list_steps(shape, kwargs)
            return all(step.following.startswith(step.whole) for step in steps)
        except TemplateError:
            return False

    def find_stripping(self, kwargs: Kwargs) -> Clause | None:
        """Finds the clause that removes reasoning from the content of earlier turns."""
        return self._explainer.find_stripping(kwargs)

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
                kept += _count_common(seen, prompt.tokens)
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
        if self._is_closed(shape, kwargs):
            shape = shape.without_reasoning()  # the format has no place for it
        for step in self._list_steps(shape, kwargs):
            texts += [step.prompt, step.turned, step.following]
            for found in (self._check_history(step, first), self._check_turn(step, first)):
                if found is not None:
                    first[found.contract] = found
        return Walk(shape, kwargs, tuple(first.values()), texts=tuple(texts))

    def _is_closed(self, shape: Shape, kwargs: Kwargs) -> bool:
        """Returns whether the first prompt ends after a closed reasoning block."""
        count = shape.turns[0]
        opened = self._render(shape, count, kwargs)
        closed = self._render(shape, count, kwargs, opened=False)
        return find_state(opened, closed, self._selected.format).start is Start.CLOSED

    def _list_steps(self, shape: Shape, kwargs: Kwargs) -> Iterator[_Step]:
        bounds = (*shape.turns, len(shape.messages))
        for number, (index, following) in enumerate(itertools.pairwise(bounds), 1):
            prompt = self._render(shape, index, kwargs)
            closed = self._render(shape, index, kwargs, opened=False)
            calls = count_calls(shape.messages[:index])
            state = find_state(prompt, closed, self._selected.format, calls=calls)
            yield _Step(
                shape=shape,
                kwargs=kwargs,
                number=number,
                index=index,
                next=following,
                prompt=prompt,
                closed=closed,
                written=self._write(shape.messages[index], state),
                turned=self._render(shape, index + 1, kwargs, opened=False),
                following=self._render(shape, following, kwargs),
                next_closed=self._render(shape, following, kwargs, opened=False),
            )

    def _render(self, shape: Shape, count: int, kwargs: Kwargs, *, opened: bool = True) -> str:
        """Renders the prompt of the first messages."""
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

    def _check_history(self, step: _Step, known: Collection[Contract]) -> Break | None:
        """Checks whether the text of the conversation stays the same when the turn and later
        messages are added."""
        if Contract.HISTORY in known:
            return None
        bounds = itertools.pairwise((step.index, step.index + 1, step.next))
        texts = itertools.pairwise((step.closed, step.turned, step.next_closed))
        for counts, (earlier, later) in zip(bounds, texts, strict=True):
            if not later.startswith(earlier):
                found = self._make_break(Contract.HISTORY, step, earlier, later)
                clause = self._explainer.find_clause(step, counts, opened=(False, False))
                return replace(found, clause=clause)
        return None

    def _check_turn(self, step: _Step, known: Collection[Contract]) -> Break | None:
        """Checks whether the next prompt begins with the prompt and the turn."""
        if step.following.startswith(step.whole):
            return None
        offset = count_common(step.whole, step.following)
        contract = Contract.PROMPT if offset < len(step.prompt) else Contract.TURN
        if contract in known:
            return None
        found = self._make_break(contract, step, step.whole, step.following)
        if contract is Contract.TURN:
            return self._explainer.explain_turn(step, found, offset)
        counts = step.index, step.next
        return replace(found, clause=self._explainer.find_clause(step, counts, opened=(True, True)))

    def _make_break(self, contract: Contract, step: _Step, earlier: str, later: str) -> Break:
        offset = count_common(earlier, later)
        around = slice(max(0, offset - _CONTEXT), offset + _CONTEXT)
        return Break(
            contract,
            step.number,
            offset=len(earlier[:offset].encode(errors="replace")),
            earlier=earlier[around],
            later=later[around],
            lost=self._count_tokens(earlier[offset:]),
        )

    def _count_tokens(self, text: str) -> int:
        if self._vocabulary is None:
            return -(-len(text) // 4)
        return len(self._vocabulary.encode_special(text, inside=True))


@cache
def _lower_tools() -> tuple[Tool, ...]:
    return read_tools(TOOLS)


def _count_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns the number of tokens of the common prefix of two prompts."""
    for i, (token, other) in enumerate(zip(first, second, strict=False)):
        if token != other:
            return i
    return min(len(first), len(second))
