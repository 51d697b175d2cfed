"""Turns that continue an assistant prefill: adds its text, in the wire format, as tokens after the
prompt. It is data: none of it becomes a marker. A text that the parser would read as something
else, or that the grammar does not allow, is refused."""

import re
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, replace

from constrained.decode.filters.written_prefill import WrittenPrefill
from constrained.decode.token_healing import count_healed
from constrained.engine.vocabulary.vocabulary import ends_inside
from constrained.errors import RequestError
from constrained.mask.matcher import Matcher
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.assistant_prefill import AssistantPrefill
from grammars.errors import RenderError
from grammars.parse.parser import collect
from grammars.parse.render import render
from grammars.turn import THINKING_TAGS, Choice, Policy, Start, State, Think, Turn
from grammars.wire.format import Format

_CONTENT, _REASONING = "\ue000", "\ue001"  # placeholders for the texts in the rendered turn


@dataclass(frozen=True)
class _Part:
    text: str
    tokens: tuple[int, ...]
    is_data: bool
    is_content: bool


def narrow_state(prefill: AssistantPrefill, state: State, format: Format) -> State:
    """Returns the state in which the grammar of a turn with this prefill starts: after the
    reasoning block, if the prefill has content."""
    if prefill.content and format.reasoning:
        return replace(state, start=Start.CLOSED, pad="")
    return state


def narrow_policy(prefill: AssistantPrefill, policy: Policy) -> Policy:
    """Returns the policy after the prefill: content continues as content, not as a call."""
    if prefill.reasoning and policy.think is Think.FORBIDDEN:
        raise _refuse(prefill, 0, is_content=False)
    if not prefill.content:
        return policy
    if policy.choice is Choice.REQUIRED:
        raise _refuse(prefill, 0, is_content=True)
    if policy.think is Think.REQUIRED:
        if not prefill.reasoning:
            raise _refuse(prefill, 0, is_content=True)
        policy = replace(policy, think=Think.OPTIONAL)
    if policy.answer is not None:
        policy = replace(policy, choice=Choice.NONE, names=None)
    return policy


def add_prefill(turn: CompiledTurn, prefill: AssistantPrefill) -> CompiledTurn:
    """Adds the prefill after the prompt of a turn, whose policy and state are narrowed to it.
    RequestError: the format has no place for it, the parser would read it as something else, or it
    is not allowed; the message has the number of bytes that fit."""
    if not (prefill.content or prefill.reasoning):
        return turn
    return _PrefilledTurn(turn, prefill).compile()


@dataclass(frozen=True)
class _PrefilledTurn:
    turn: CompiledTurn
    prefill: AssistantPrefill

    def compile(self) -> CompiledTurn:
        turn, prefill = self.turn, self.prefill
        self._check_texts()
        written = self._write(prefill, turn.prompt.state)
        # If there is content, the grammar starts after the reasoning.
        body = written
        if prefill.content:
            body = self._write(replace(prefill, reasoning=""), turn.state)
        before = self._encode(written.removesuffix(body))
        parts = self._encode(body)
        if turn.matcher:
            self._check_grammar(turn.matcher.fork(), parts)
        self._check_reading([*before, *parts])
        kept = self._cut(before, parts)
        matcher = turn.matcher
        if matcher:
            matcher = matcher.fork()
            for token in kept.tokens[kept.outside :]:
                matcher.commit(token)
        return replace(turn, matcher=matcher, plan=replace(turn.plan, prefill=kept))

    def _check_texts(self) -> None:
        """Refuses reasoning with a marker in it. If no marker opens calls, also refuses content
        that is the beginning of a call, since the model would complete it."""
        turn, reasoning = self.turn, self.prefill.reasoning
        offsets = [reasoning.find(marker) for marker in turn.format.reserved]
        found = [offset for offset in offsets if offset >= 0]
        if found:
            size = len(reasoning[: min(found)].encode())
            raise _refuse(self.prefill, size, is_content=False)
        opener = "".join(turn.format.bare_start)
        content = "".join(self.prefill.content.split())
        if turn.format.escapes_content:  # it stands in a string, and a call does not
            return
        if not opener or not content or not turn.plan.has_calls:
            return
        if opener.startswith(content) or content.startswith(opener):
            raise RequestError(
                "the text starts like a call",
                where=self.prefill.where(is_content=True),
                hint='Leave the tools out, or use tool_choice "none"',
            )

    def _write(self, prefill: AssistantPrefill, state: State) -> str:
        """Renders the prefill with placeholders for its texts, up to the end of the last one."""
        content = _CONTENT if prefill.content else ""
        reasoning = _REASONING if prefill.reasoning else ""
        try:
            text = render(Turn(content, reasoning), self.turn.format, state=state)
        except RenderError as e:
            is_content = e.where != "/reasoning"
            raise RequestError(e.message, where=prefill.where(is_content=is_content)) from e
        return text[: text.find(content or reasoning) + 1]

    def _encode(self, text: str) -> list[_Part]:
        parts: list[_Part] = []
        has_content = bool(self.prefill.content)
        is_content = has_content and _REASONING not in text
        for piece in re.split(f"([{_CONTENT}{_REASONING}])", text):
            if piece:
                parts.append(self._encode_piece(piece, is_content=is_content))
            if piece == _REASONING:
                is_content = has_content
        return parts

    def _encode_piece(self, piece: str, *, is_content: bool) -> _Part:
        vocabulary = self.turn.vocabulary
        if piece not in (_CONTENT, _REASONING):
            tokens = vocabulary.encode_marked(piece, self.turn.markers)
            return _Part(piece, tuple(tokens), is_data=False, is_content=is_content)
        text = self.prefill.reasoning
        if is_content:
            text = self.turn.format.contents[0].spell(self.prefill.content)
        try:
            tokens = vocabulary.encode(text)
        except UnicodeEncodeError as e:
            where = self.prefill.where(is_content=is_content)
            raise RequestError("it has a lone surrogate", where=where, hint="Replace it") from e
        return _Part(text, tuple(tokens), is_data=True, is_content=is_content)

    def _check_grammar(self, matcher: Matcher, parts: Sequence[_Part]) -> None:
        for part in parts:
            count = matcher.count_accepted(part.tokens)
            if count < len(part.tokens):
                size = 0
                if part.is_data:
                    size = self._measure_fitting(matcher, part, count)
                raise _refuse(self.prefill, size, is_content=part.is_content)
            for token in part.tokens:
                matcher.commit(token)

    def _measure_fitting(self, matcher: Matcher, part: _Part, count: int) -> int:
        """Returns the number of bytes of a part that fit, if this number of its tokens fits."""
        vocabulary = self.turn.vocabulary
        fitting = vocabulary.text(part.tokens[:count]).decode("utf-8", "ignore")
        for end in range(len(fitting) + 1, len(part.text)):
            tokens = vocabulary.encode(part.text[:end])
            if matcher.count_accepted(tokens) < len(tokens):
                break
            fitting = part.text[:end]
        return len(fitting.encode())

    def _check_reading(self, parts: Sequence[_Part]) -> None:
        """Refuses text that the parser reads as something else, such as a marker of the format."""
        prefill = self.prefill
        parser = self.turn.begin_at(self.turn.prompt.state).make_parser()
        read = collect([*parser.feed(_join_texts(parts)), *parser.close()])
        if read == Turn(prefill.content, prefill.reasoning):
            return
        is_content = not prefill.reasoning or read.reasoning == prefill.reasoning
        raise RequestError(
            "part of the text would be read as a marker or as reasoning",
            where=prefill.where(is_content=is_content),
            hint="Remove the marker, and give reasoning as reasoning_content",
        )

    def _cut(self, before: Sequence[_Part], parts: Sequence[_Part]) -> WrittenPrefill:
        """Returns the prefill without its last tokens, which are left to token healing. If the
        budget of the reasoning is spent, all of its tokens stay."""
        turn, vocabulary = self.turn, self.turn.vocabulary
        tokens = _join_tokens(parts)
        outside = _join_tokens(before)
        kept = tokens.copy()
        reasoning_tokens = self._count_reasoning(tokens)
        budget = None if turn.plan.budget is None else turn.plan.budget.tokens
        is_budget_spent = budget is not None and reasoning_tokens >= budget
        if not is_budget_spent:
            del kept[-count_healed(parts[-1].tokens, vocabulary) :]
            # `healed` is text, so it begins with a whole character.
            while ends_inside(vocabulary.text(kept)):
                kept.pop()
        healed = vocabulary.text(tokens[len(kept) :]).decode()
        return WrittenPrefill(
            text=_join_texts(parts).removesuffix(healed),
            healed=healed,
            tokens=(*outside, *kept),
            message=self.prefill,
            outside=len(outside),
            reasoning_tokens=max(0, reasoning_tokens - (len(tokens) - len(kept))),
            marker_suffixes=self._find_marker_suffixes(),
        )

    def _count_reasoning(self, tokens: Sequence[int]) -> int:
        """Counts tokens inside the reasoning block; 0 if they close the block."""
        parser, decoder, count = self.turn.make_parser(), getincrementaldecoder("utf-8")(), 0
        for token in tokens:
            was_reasoning = parser.is_reasoning
            parser.feed(decoder.decode(self.turn.vocabulary.text([token])))
            if not parser.is_reasoning:
                count = 0
            elif was_reasoning:
                count += 1
        return count

    def _find_marker_suffixes(self) -> tuple[str, ...]:
        """Returns texts that may not follow: they would complete a marker."""
        text = self.prefill.content or self.prefill.reasoning
        format = self.turn.format
        markers = {*format.reserved, *format.inner_ends, format.tail, *format.openings} - {""}
        if self.turn.plan.thinking_tags:
            markers.add(THINKING_TAGS[0])
        found = set[str]()
        for marker in markers:
            for size in range(1, len(marker)):
                if text.endswith(marker[:size]):
                    found.add(marker[size:])
        return tuple(sorted(found))


def _join_tokens(parts: Sequence[_Part]) -> list[int]:
    tokens: list[int] = []
    for part in parts:
        tokens += part.tokens
    return tokens


def _join_texts(parts: Sequence[_Part]) -> str:
    return "".join(part.text for part in parts)


def _refuse(prefill: AssistantPrefill, size: int, *, is_content: bool) -> RequestError:
    return RequestError(
        f"the prefilled text does not fit the request: it is valid up to byte {size}",
        where=prefill.where(is_content=is_content),
        hint="Cut it there, or ask for something else",
    )
