"""Format x tools x policy x start state -> the grammar of one assistant turn.

It covers the whole turn, from the first token after the rendered prompt to the end of turn.
End-of-generation tokens are not in it: the matcher admits them where it accepts.
"""

from collections.abc import Mapping, Sequence

from grammars.build.answer import write_answer
from grammars.build.calls import CallRules, TurnSpec
from grammars.build.values import Values
from grammars.errors import PolicyError
from grammars.ir.grammar import Grammar, GrammarBuilder
from grammars.ir.nodes import (
    ANY_TEXT,
    EMPTY,
    Costly,
    Expression,
    Literal,
    choice,
    intersection,
    optional,
    sequence,
    unlike,
)
from grammars.regex.writing import escape_regex, match_any
from grammars.spelling.json_call import begin_call, style_answer, style_arguments
from grammars.spelling.keyword_arguments import spell_fixed
from grammars.turn import Choice, JsonAnswer, Policy, RegexAnswer, Start, State, Think, Tool
from grammars.wire.format import (
    Content,
    Fixed,
    Format,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    Marker,
    Reasoning,
    cut_lead,
)


def build_grammar(
    format: Format,
    tools: Sequence[Tool],
    policy: Policy | None = None,
    state: State | None = None,
    markers: Mapping[str, int] | None = None,
    *,
    captures: bool = False,
) -> str:
    """The grammar of one assistant turn as Lark for llguidance; see `build_turn`."""
    return build_turn(format, tools, policy, state, markers, captures=captures).lark


def build_turn(
    format: Format,
    tools: Sequence[Tool],
    policy: Policy | None = None,
    state: State | None = None,
    markers: Mapping[str, int] | None = None,
    *,
    captures: bool = False,
    text_ends: Sequence[str] = (),
) -> Grammar:
    """The grammar of one assistant turn.

    Args:
        format: the model's wire format.
        tools: the tools on offer.
        policy: what the request allows; by default anything.
        state: where the rendered prompt ends.
        markers: token ids of those markers that the vocabulary has as one token.
        captures: the matcher keeps the text of each call's arguments, under the tool's name
            (`get_captures` of llguidance); that is a second reading, beside the parser's. Not of
            calls in Python; and of nested tags also the arguments before any optional one.
        text_ends: texts that may end a turn behind its calls, as the end token does: whoever reads
            the turn stops there. Content may have any text in it.

    Raises:
        PolicyError, ToolError: the request cannot be satisfied, or a name cannot be written.
        SchemaError: a schema that this format cannot write.
    """
    policy = policy or Policy()
    turn = TurnSpec(
        format=format,
        tools=policy.select(tools),
        names=[tool.name for tool in tools],
        policy=policy,
        state=state or State(),
        captures=captures,
        text_ends=text_ends,
    )
    return _TurnRules(turn, GrammarBuilder(markers)).build()


class _TurnRules:
    """Adds the rules of the turn to a grammar."""

    def __init__(self, turn: TurnSpec, builder: GrammarBuilder):
        self._turn = turn
        self._format, self._policy, self._state = turn.format, turn.policy, turn.state
        self._builder = builder
        style = style_arguments(turn.format.hole)
        self._values = Values(builder, style, turn.policy.key_order)
        self._calls = CallRules(turn, self._values)

    def build(self) -> Grammar:
        """The whole grammar."""
        body = self._builder.define(self._body(), "body")
        head = EMPTY
        if self._format.head and not self._state.lead:
            head = self._calls.spaced(self._format.head)
        return self._builder.build(sequence(self._thought(), head, body))

    def _thought(self) -> Expression:
        """The reasoning block, as far as the prompt has not written it."""
        block, think, state = self._format.reasoning, self._policy.think, self._state
        if block is None:
            if think is Think.REQUIRED:
                hint = "Leave thinking optional"
                message = f"format {self._format.name} has no reasoning block"
                raise PolicyError(message, hint=hint)
            return EMPTY
        if state.start is Start.OPEN:
            inner = self._inner_pad(block, state.pad)
            if think is Think.FORBIDDEN:
                closer = self._calls.spaced(block.closer.text)
                return sequence(inner, closer, self._pad(block.after))
            return sequence(inner, self._thought_text(block))
        if state.start is Start.CLOSED:
            if think is Think.REQUIRED:
                hint = "Leave thinking optional, or let the template open the block"
                raise PolicyError("the prompt has already closed the reasoning block", hint=hint)
            if state.lead or self._policy.answer is not None:
                return self._pad(state.pad)
            # Some models close it again.
            return optional(self._calls.spaced(block.closer.text))
        return self._whole_thought(block)

    def _whole_thought(self, block: Reasoning) -> Expression:
        """The reasoning block of which the prompt has written nothing."""
        think, lead = self._policy.think, self._state.lead
        closed: Expression | None = None  # where there is no reasoning
        if block.starts_closed and not lead and self._policy.answer is None:
            closed = optional(self._calls.spaced(block.closer.text))
        if lead or think is Think.FORBIDDEN:
            return self._pad(self._state.pad) if closed is None else closed
        text = self._thought_text(block)
        inner = self._inner_pad(block, block.pad_open)
        whole = sequence(self._calls.spaced(block.opener.text), inner, text)
        if think is Think.REQUIRED:
            return whole
        return optional(whole) if closed is None else choice([whole, closed])

    def _inner_pad(self, block: Reasoning, pad: str) -> Expression:
        """White space between opener and thought that would close the block if it were not told
        apart: a thought of one line, below its opener. Other white space is part of the text."""
        return Literal(pad) if block.closer.text in pad else EMPTY

    def _thought_text(self, block: Reasoning) -> Expression:
        """The reasoning and what closes it."""
        return sequence(self._until(block.closer.text), self._pad(block.after))

    def _pad(self, pad: str) -> Expression:
        """White space that a template writes behind the reasoning, and that is no part of what
        comes next; text and calls may begin with any, but an answer of a given form may not."""
        answer = self._policy.answer
        is_exact = answer is not None and not isinstance(answer, JsonAnswer)
        return optional(Literal(pad)) if pad and is_exact else EMPTY

    def _body(self) -> Expression:
        """Content, calls, or content and calls; with an answer asked for, it or calls."""
        tools, answer = self._turn.tools, self._policy.answer
        must_call = bool(tools) and self._policy.choice is Choice.REQUIRED
        options: list[Expression] = []
        if not must_call:
            for way in self._format.contents:
                options += self._content_alone(way)
        if tools and self._format.bare is not None:
            self._refuse_ambiguous(self._format.bare)
            nodes = (*self._format.opening, *self._format.call)
            options.append(Costly(self._calls.calls(nodes, spaced=True)))
        elif tools:
            own, *others = self._format.openings
            options += map(Costly, self._opened_calls(own))
            for opening in others:  # which models use, and the template does not
                options += [Costly(Costly(calls)) for calls in self._opened_calls(opening)]
        if not options:
            hint = "Leave the tool choice to the model, or use a template that begins no message"
            message = (
                f"the prompt begins the turn with {self._state.lead!r}, and no allowed turn does"
            )
            raise PolicyError(message, hint=hint)
        if must_call or answer is not None or self._state.lead:
            return choice(options)
        if Content() in self._format.contents:  # which may be empty
            return choice(options)
        return optional(choice([*options, self._calls.space()]))

    def _content_alone(self, way: Content) -> list[Expression]:
        """The turn as content alone, if it may be."""
        head = self._opener(way.opener)
        if head is None:
            return []
        if self._policy.answer is not None:
            if way != self._format.contents[0]:
                return []
            text = self._closed_answer(way.closer) if way.closer else self._answer()
        else:
            text = self._until(way.closer) if way.closer else optional(self._free(content=True))
        return [sequence(head, text, self._calls.tail)]

    def _opened_calls(self, opening: str) -> list[Expression]:
        """Calls that are opened in this way: at once, or behind content."""
        nodes = self._format.openings[opening]
        trailing = self._content_behind()
        calls = self._calls.calls(nodes, opening, behind=trailing)
        if self._has_content_inside(opening):
            closer, *rest = nodes
            assert isinstance(closer, Fixed)
            behind_closer = self._calls.calls(tuple(rest), opening, behind=trailing)
            calls = sequence(self._until(closer.text), behind_closer)
        at_once: list[Expression] = []
        if self._state.lead:
            rest = cut_lead((Marker(opening), *nodes), self._state.lead)
            if rest is not None:
                at_once.append(self._calls.calls(rest, opening))
        elif self._is_shared(opening):
            # The lexer would not give up `to=user` for `to=`: the name goes into one terminal.
            whole = (Marker(opening), *nodes)
            at_once.append(self._calls.calls(whole, opening, spaced=True, behind=trailing))
        else:
            at_once.append(sequence(self._calls.spaced(opening), calls))
        if self._policy.requires_output:
            return at_once
        ways = [way for way in self._format.contents if way.calls]
        header = self._format.before
        if header.strip() and ways == [Content()] and not self._state.lead:
            return [*at_once, sequence(self._until(header + opening), calls)]
        if ways == [Content()] and not self._state.lead:
            return [sequence(self._until(opening), calls)]
        behind: list[Expression] = []
        for way in ways:
            behind += self._calls_behind(way, opening, calls)
        return at_once + behind

    def _has_content_inside(self, opening: str) -> bool:
        """May content stand behind what opens the calls in this way? None beside a call that is
        asked for."""
        own = self._format.opener is not None and opening == self._format.opener.text
        return own and self._format.has_content_inside and not self._policy.requires_output

    def _content_behind(self) -> Expression:
        """The content that may stand behind calls: none beside a call that is asked for, and none
        in place of an answer."""
        if self._policy.requires_output or not self._format.has_content_behind:
            return EMPTY
        return optional(self._free())

    def _is_shared(self, opening: str) -> bool:
        """Does something else begin as calls do?"""
        others = [way.opener for way in self._format.contents]
        if self._format.reasoning is not None:
            others.append(self._format.reasoning.opener.text)
        return any(other.startswith(opening) for other in others)

    def _calls_behind(self, way: Content, opening: str, calls: Expression) -> list[Expression]:
        """The calls behind content, if that may begin here."""
        head = self._opener(way.opener)
        if head is None:
            return []
        if way.closer:
            text = self._until(way.closer)
            return [sequence(head, text, self._calls.spaced(opening), calls)]
        header = self._format.before if self._format.before.strip() else ""
        return [sequence(head, self._until(header + opening), calls)]

    def _opener(self, text: str) -> Expression | None:
        """What opens content or calls, without what the prompt has written of it; None where the
        prompt has written something else."""
        lead = self._state.lead
        if text and not lead and self._policy.answer is None:
            return self._calls.spaced(text)
        if not text.startswith(lead):
            return None
        return self._builder.fixed(text.removeprefix(lead))

    def _answer(self) -> Expression:
        """The answer; JSON may have white space in front of it."""
        assert self._policy.answer is not None
        openings = tuple(self._format.openings) if self._turn.tools else ()
        block = self._format.reasoning
        others = () if block is None else (block.opener.text,)
        values = self._values.restyle(style_answer(self._format.hole))
        answer = write_answer(self._policy.answer, values, openings, others)
        if isinstance(self._policy.answer, JsonAnswer):
            return sequence(optional(self._calls.space()), answer)
        return answer

    def _closed_answer(self, closer: str) -> Expression:
        """The answer and what closes it; an expression that goes on for ever has to be stopped."""
        answer = self._answer()
        is_endless = isinstance(self._policy.answer, RegexAnswer)
        if not is_endless or self._builder.begins_with_token(closer):
            return sequence(answer, self._builder.fixed(closer))
        closed = unlike(f"(?s:.*){escape_regex(closer)}")
        raw = self._builder.terminal(intersection(answer, closed), "ANSWER")
        first, *rest = self._builder.cut(closer)
        ended = self._builder.lazy(sequence(raw, Literal(first)), "answer")
        return sequence(ended, self._builder.fixed("".join(rest)))

    def _refuse_ambiguous(self, bare: JsonCall | JsonArguments | KeywordArguments) -> None:
        """Refuses an answer that could be read as a call.

        Raises:
            PolicyError: `where` is the answer.
        """
        answer = self._policy.answer
        if answer is None or self._policy.choice is Choice.REQUIRED:
            return
        opening = spell_fixed(self._format.opening).lstrip()
        is_spelled_out = isinstance(bare, JsonArguments) and not opening
        is_spelled_out = is_spelled_out or opening.startswith("{")
        hint = "Use a JSON schema for the answer, or tool_choice none"
        if is_spelled_out:
            hint = "Use tool_choice none"
        if not isinstance(answer, JsonAnswer) or is_spelled_out:
            raise PolicyError(
                f"format {self._format.name} cannot tell such an answer from a call",
                where="/response_format",
                hint=hint,
            )
        if self._format.opening and answer.schema.can_be_list:
            raise PolicyError(
                "an answer that is a list could be read as a list of calls",
                where="/response_format",
                hint="Put the list into an object, or use tool_choice none",
            )
        if not isinstance(bare, JsonCall):
            return  # no other answer begins as a list does
        keys = (bare.name_key, bare.arguments_key)
        if answer.schema.can_have(keys):
            raise PolicyError(
                f"an answer with the keys {keys[0]!r} and {keys[1]!r} could be read as a call",
                where="/response_format",
                hint="Rename one of them, close the object, or use tool_choice none",
            )

    def _until(self, marker: str) -> Expression:
        """Free text that ends with the marker."""
        builder = self._builder
        if builder.begins_with_token(marker):
            text = sequence(optional(self._free()), builder.fixed(marker))
            return builder.define(text, "until")
        first, *rest = builder.cut(marker)
        text = builder.lazy(sequence(self._free(), Literal(first)), "until")
        return sequence(text, builder.fixed("".join(rest)))

    def _free(self, *, content: bool = False) -> Expression:
        """Any text without a marker, also where a marker is spelled in ordinary tokens.

        Args:
            content: where no marker opens calls, the text does not begin as a call does.
        """
        excluded: list[Expression] = []
        if self._format.reserved:
            markers = match_any(self._format.reserved)
            excluded.append(unlike(f"(?s:.*){markers}"))
        if content and self._format.bare and self._turn.tools:
            excluded.append(unlike(begin_call(self._format)))
        return self._builder.terminal(intersection(ANY_TEXT, *excluded), "FREE")
