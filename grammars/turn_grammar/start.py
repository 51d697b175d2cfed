"""Grammar rules for the start of a turn: reasoning, and text that goes on to a marker."""

from grammars.errors import PolicyError
from grammars.regex.writing import match_any
from grammars.turn import JsonAnswer, Start, Think, find_reasoning_start
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.turn_grammar.calls import TurnSpec
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.spaces import SpacedTexts
from grammars.wire.format import Reasoning


class FreeText:
    """Adds the rules of text that the model writes freely to a grammar."""

    def __init__(self, turn: TurnSpec, builder: GrammarBuilder):
        self._format, self._builder = turn.format, builder
        self._has_tools = bool(turn.tools)
        self._excluded = turn.policy.excluded

    def until(self, marker: str) -> ir.Expression:
        """Returns an expression for free text up to and including the marker."""
        builder = self._builder
        if builder.begins_with_token(marker):
            text = ir.sequence(ir.optional(self.text()), builder.fixed(marker))
            return builder.define(text, "until")
        first, *rest = builder.cut(marker)
        text = builder.lazy(ir.sequence(self.text(), ir.Literal(first)), "until")
        return ir.sequence(text, builder.fixed("".join(rest)))

    def text(self, *, content: bool = False) -> ir.Expression:
        """Returns an expression for any text without markers and texts that the policy excludes,
        including markers that are spelled in ordinary tokens. If no marker opens calls, content may
        not begin like a call."""
        excluded: list[ir.Expression] = []
        texts = (*self._format.reserved, *self._excluded)
        if texts:
            markers = match_any(texts)
            excluded.append(ir.exclude_beginning(f"(?s:.*){markers}"))
        if content and self._format.bare and self._has_tools:
            excluded.append(ir.exclude_beginning(find_kind(self._format).match_start()))
        return self._builder.terminal(ir.intersection(ir.ANY_TEXT, *excluded), "FREE")


class StartRules:
    """Adds the rules of a turn's start to a grammar."""

    def __init__(self, turn: TurnSpec, free: FreeText, texts: SpacedTexts):
        self._turn, self._free, self._texts = turn, free, texts
        self._format, self._policy, self._state = turn.format, turn.policy, turn.state

    def write(self) -> ir.Expression:
        """Returns the header that the prompt lacks, if the model may write it, and the part of the
        reasoning block that the prompt has not written."""
        block, think, state = self._format.reasoning, self._policy.think, self._state
        if think is Think.REQUIRED:
            self._require_reasoning()
        nothing = ir.optional(self._texts.spaced(state.header)) if state.header else ir.EMPTY
        if block is None:
            return nothing
        has_answer = self._policy.answer is not None
        start = find_reasoning_start(block, state, think, has_answer=has_answer)
        if start.is_open:
            inner = self._inner_pad(block, state.pad)
            if start.closes_at_once:
                closer = self._texts.spaced(block.closer.text)
                return ir.sequence(nothing, inner, closer, self._pad(block.after))
            return ir.sequence(nothing, inner, self._reasoning_text(block))
        options = list(map(self._begin, start.instead))
        if start.may_open:
            inner = self._inner_pad(block, block.pad_open)
            text = self._reasoning_text(block)
            options.append(ir.sequence(self._begin(block.opener.text), inner, text))
        if start.must_open:
            return ir.choice(options)
        if not start.may_open and not start.instead:
            return ir.sequence(nothing, self._pad(state.pad))
        if nothing == ir.EMPTY:
            return ir.optional(ir.choice(options))
        return ir.choice([*options, nothing])

    def _begin(self, text: str) -> ir.Expression:
        """Returns an expression for a text at the beginning of the turn, perhaps after the header
        that the prompt lacks."""
        header, own = self._state.header, self._texts.spaced(text)
        if not header:
            return own
        if self._begins_with_content:
            # One text: the lexer would take the header alone for the beginning of the content.
            return ir.choice([own, self._texts.spaced(header + text)])
        return ir.sequence(ir.optional(self._texts.spaced(header)), own)

    @property
    def _begins_with_content(self) -> bool:
        if self._turn.must_call or self._policy.answer is not None or self._format.head:
            return False
        return any(not content.opener for content in self._format.contents)

    def _require_reasoning(self) -> None:
        if self._format.reasoning is None:
            hint = "Leave thinking optional"
            message = f"format {self._format.name} has no reasoning block"
            raise PolicyError(message, hint=hint)
        if self._state.start is Start.CLOSED:
            hint = "Leave thinking optional, or let the template open the block"
            raise PolicyError("the prompt has already closed the reasoning block", hint=hint)

    def _inner_pad(self, block: Reasoning, pad: str) -> ir.Expression:
        """Returns an expression for white space after the opener that would otherwise close the
        block, in formats with one line of reasoning. Other white space is part of the reasoning."""
        return ir.Literal(pad) if block.closer.text in pad else ir.EMPTY

    def _reasoning_text(self, block: Reasoning) -> ir.Expression:
        return ir.sequence(self._free.until(block.closer.text), self._pad(block.after))

    def _pad(self, pad: str) -> ir.Expression:
        """Returns an expression for the white space that a template writes after the reasoning.
        Content and calls may begin with any white space, so only a turn that may begin with an
        answer of a given form needs it here."""
        is_json = isinstance(self._policy.answer, JsonAnswer)
        is_exact = self._texts.is_answer_first and not is_json
        return ir.optional(ir.Literal(pad)) if pad and is_exact else ir.EMPTY
