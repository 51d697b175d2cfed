"""The grammar of one assistant turn: all of it, from the first token after the rendered prompt to
the end of the turn. End-of-generation tokens are not part of it: the matcher allows them where it
accepts."""

from collections.abc import Mapping, Sequence

from grammars.errors import PolicyError
from grammars.regex.writing import escape_regex, match_any
from grammars.spelling.styles import speaks_json
from grammars.turn import (
    Choice,
    GrammarAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    Start,
    State,
    Think,
    Tool,
    find_reasoning_start,
)
from grammars.turn_grammar.answer import write_answer
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.turn_grammar.calls import CallRules, TurnSpec
from grammars.turn_grammar.encoded import encode, encode_text
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import Grammar, GrammarBuilder
from grammars.turn_grammar.spaces import SpacedTexts
from grammars.turn_grammar.values import Values
from grammars.wire.format import (
    Content,
    Fixed,
    Format,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    Marker,
    Node,
    Reasoning,
    spell_fixed,
)
from grammars.wire.nodes import JsonStyle


def build_grammar(
    format: Format,
    tools: Sequence[Tool],
    policy: Policy | None = None,
    state: State | None = None,
    markers: Mapping[str, int] | None = None,
    *,
    captures: bool = False,
) -> str:
    """Builds the grammar of one assistant turn as Lark text for llguidance; see `build_turn`."""
    turn = build_turn(format, tools, policy, state=state, markers=markers, captures=captures)
    return turn.lark


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
    """Builds the grammar of one assistant turn.

    Args:
        format: the model's wire format.
        policy: what the request allows; by default anything.
        markers: token ids of the markers that are a single token of the vocabulary.
        captures: the matcher records the text of each call's arguments under the tool's name
            (`get_captures` of llguidance), as a second reading beside the parser's. Calls in Python
            are not recorded; of nested tags, the arguments before any optional one are recorded,
            too.
        text_ends: texts that may end a turn after its calls, like an end token, since the reader of
            the turn stops there. Content may contain any text.

    Raises:
        PolicyError: no turn satisfies the request.
        ToolError: the format cannot write the name of a tool.
        SchemaError: the format cannot write a value of a schema.
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
    """Adds the rules of a turn to a grammar."""

    def __init__(self, turn: TurnSpec, builder: GrammarBuilder):
        self._turn = turn
        self._format, self._policy, self._state = turn.format, turn.policy, turn.state
        self._builder = builder
        self._kind = find_kind(turn.format)
        self._values = Values(builder, self._kind.style, turn.policy.key_order)
        has_answer = turn.policy.answer is not None
        self._texts = SpacedTexts(turn.format, builder, has_answer=has_answer)
        self._free = FreeText(turn, builder)
        self._calls = CallRules(turn, self._kind, self._values, self._texts)

    def build(self) -> Grammar:
        body = self._builder.define(self._write_body(), "body")
        head = ir.EMPTY
        if self._format.head and not self._state.lead:
            head = self._texts.spaced(self._format.head)
        start = StartRules(self._turn, self._free, self._texts).write()
        return self._builder.build(ir.sequence(start, head, body))

    def _write_body(self) -> ir.Expression:
        """Returns content, calls, or both. An answer takes the place of the content."""
        tools, answer = self._turn.tools, self._policy.answer
        options: list[ir.Expression] = []
        if not self._turn.must_call:
            for way in self._format.contents:
                options += self._content_alone(way)
        if tools and self._format.bare is not None:
            self._refuse_ambiguous(self._format.bare)
            nodes, lead = (*self._format.opening, *self._format.call), self._state.lead
            calls = self._calls.calls(nodes, spaced=not lead, lead=lead)
            if calls != ir.NOTHING:
                options.append(ir.Costly(calls))
        elif tools:
            own, *others = self._format.openings
            options += map(ir.Costly, self._opened_calls(own))
            for opening in others:  # that models use, but the template does not
                options += [ir.Costly(ir.Costly(calls)) for calls in self._opened_calls(opening)]
        if not options:
            hint = "Leave the tool choice to the model, or use a template that begins no message"
            begun = f"the prompt begins the turn with {self._state.lead!r}"
            raise PolicyError(f"{begun}, but no allowed turn does", hint=hint)
        must_write = self._turn.must_call or answer is not None or self._state.lead
        if must_write or Content() in self._format.contents:  # which may be empty
            return ir.choice(options)
        return ir.optional(ir.choice([*options, self._texts.space()]))

    def _content_alone(self, way: Content) -> list[ir.Expression]:
        """Returns the turn as content without calls; empty if that is not allowed."""
        head = self._opener(way.opener)
        if head is None:
            return []
        if way.escaped:
            text = ir.sequence(self._escaped(way), self._builder.fixed(way.closer))
        elif self._policy.answer is not None:
            if way != self._format.contents[0]:
                return []
            text = self._closed_answer(way.closer) if way.closer else self._answer()
        elif way.closer:
            text = self._free.until(way.closer)
        else:
            text = ir.optional(self._free.text(content=True))
        return [ir.sequence(head, text, self._calls.tail)]

    def _opened_calls(self, opening: str) -> list[ir.Expression]:
        """Returns the calls that this text opens: immediately, or after content."""
        ways = self._list_ways(opening)
        if not ways:
            return []
        trailing = ir.EMPTY
        if self._format.has_content_after_calls and not self._policy.requires_output:
            trailing = ir.optional(self._free.text())
        calls = ir.choice(
            self._calls.calls(nodes, opening, is_several=is_several, following=trailing)
            for nodes, is_several in ways
        )
        may_have_content = self._format.has_content_inside and not self._policy.requires_output
        if may_have_content and self._format.is_own(opening):
            closer, *rest = self._format.openings[opening]
            assert isinstance(closer, Fixed)
            after_closer = self._calls.calls(tuple(rest), opening, following=trailing)
            calls = ir.sequence(self._free.until(closer.text), after_closer)
        at_once: list[ir.Expression] = []
        if self._state.lead:
            for nodes, is_several in ways:
                whole, lead = (Marker(opening), *nodes), self._state.lead
                begun = self._calls.calls(whole, opening, is_several=is_several, lead=lead)
                if begun != ir.NOTHING:
                    at_once.append(begun)
        elif self._is_shared(opening):
            # The lexer would prefer `to=user` to `to=`, so opener and name are one terminal.
            for nodes, is_several in ways:
                whole = (Marker(opening), *nodes)
                begun = self._calls.calls(
                    whole, opening, is_several=is_several, spaced=True, following=trailing
                )
                at_once.append(begun)
        else:
            at_once.append(ir.sequence(self._texts.spaced(opening), calls))
        if self._policy.requires_output:
            return at_once
        contents = [content for content in self._format.contents if content.calls]
        header = self._format.before
        if header.strip() and contents == [Content()] and not self._state.lead:
            return [*at_once, ir.sequence(self._free.until(header + opening), calls)]
        if contents == [Content()] and not self._state.lead:
            return [ir.sequence(self._free.until(opening), calls)]
        following: list[ir.Expression] = []
        for way in contents:
            following += self._calls_after(way, opening, calls)
        return at_once + following

    def _list_ways(self, opening: str) -> list[tuple[tuple[Node, ...], bool]]:
        """Returns the nodes that may follow this opener of calls, each with whether they begin
        several calls that are written in another way than one; empty if several are not allowed."""
        format = self._format
        if not format.opens_several(opening):
            return [(format.openings[opening], False)]
        ways: list[tuple[tuple[Node, ...], bool]] = []
        if format.is_own(opening):
            ways.append((format.openings[opening], False))
        if self._policy.parallel:
            ways.append((format.several_nodes, True))
        return ways

    def _is_shared(self, opening: str) -> bool:
        """Returns whether something else begins with the opener of the calls."""
        others = [way.opener for way in self._format.contents]
        if self._format.reasoning is not None:
            others.append(self._format.reasoning.opener.text)
        return any(other.startswith(opening) for other in others)

    def _calls_after(self, way: Content, opening: str, calls: ir.Expression) -> list[ir.Expression]:
        """Returns the calls after content; empty if this content cannot begin here."""
        head = self._opener(way.opener)
        if head is None:
            return []
        if way.closer:
            text = self._free.until(way.closer)
            return [ir.sequence(head, text, self._texts.spaced(opening), calls)]
        header = self._format.before if self._format.before.strip() else ""
        return [ir.sequence(head, self._free.until(header + opening), calls)]

    def _opener(self, text: str) -> ir.Expression | None:
        """Returns the rest of an opener after what the prompt has written, or None if that
        differs."""
        lead = self._state.lead
        if text and not lead:
            return self._texts.spaced(text)
        if not text.startswith(lead):
            return None
        return self._builder.fixed(text.removeprefix(lead))

    def _answer(self) -> ir.Expression:
        """Returns the answer. JSON may have the white space before it that the template writes."""
        assert self._policy.answer is not None
        openings = tuple(self._format.openings) if self._turn.tools else ()
        block = self._format.reasoning
        others = () if block is None else (block.opener.text,)
        style = self._format.hole.style
        if not speaks_json(style) or style.indent:
            style = JsonStyle()
        values = self._values.restyle(style)
        answer = write_answer(self._policy.answer, values, openings=openings, others=others)
        if isinstance(self._policy.answer, JsonAnswer):
            return ir.sequence(ir.optional(self._texts.space_before_answer()), answer)
        return answer

    def _closed_answer(self, closer: str) -> ir.Expression:
        """Returns the answer and its closer, which ends a regular expression without end."""
        answer = self._answer()
        is_endless = isinstance(self._policy.answer, RegexAnswer)
        if not is_endless or self._builder.begins_with_token(closer):
            return ir.sequence(answer, self._builder.fixed(closer))
        closed = ir.exclude_beginning(f"(?s:.*){escape_regex(closer)}")
        raw = self._builder.terminal(ir.intersection(answer, closed), "ANSWER")
        first, *rest = self._builder.cut(closer)
        ended = self._builder.lazy(ir.sequence(raw, ir.Literal(first)), "answer")
        return ir.sequence(ended, self._builder.fixed("".join(rest)))

    def _refuse_ambiguous(self, bare: JsonCall | JsonArguments | KeywordArguments) -> None:
        """Refuses an answer that the parser could read as a call, with PolicyError."""
        answer = self._policy.answer
        if answer is None or self._policy.choice is Choice.REQUIRED or self._format.escapes_content:
            return
        opening = spell_fixed(self._format.opening).lstrip()
        is_spelled_out = isinstance(bare, JsonArguments) and not opening
        is_spelled_out = is_spelled_out or opening.startswith("{")
        if not isinstance(answer, JsonAnswer) or is_spelled_out:
            message = f"format {self._format.name} cannot tell such an answer from a call"
            hint = "Use a JSON schema for the answer, or tool_choice none"
            if is_spelled_out:
                hint = "Use tool_choice none"
        elif self._format.opening and answer.schema.can_be_list:
            message = "an answer that is a list could be read as a list of calls"
            hint = "Put the list into an object, or use tool_choice none"
        elif not isinstance(bare, JsonCall):
            return  # no other answer begins like a list
        elif answer.schema.can_have((bare.name_key, bare.arguments_key)):
            keys = f"the keys {bare.name_key!r} and {bare.arguments_key!r}"
            message = f"an answer with {keys} could be read as a call"
            hint = "Rename one of them, close the object, or use tool_choice none"
        else:
            return
        raise PolicyError(message, where="/response_format", hint=hint)

    def _escaped(self, way: Content) -> ir.Expression:
        """Any text, or the answer, as it is written inside a JSON string."""
        if self._policy.answer is None:
            return ir.optional(self._builder.terminal(encode_text(ascii=way.ascii), "ESCAPED"))
        if isinstance(self._policy.answer, GrammarAnswer):
            message = f"format {self._format.name} writes answers as JSON strings"
            hint = "Use a schema, an expression or a choice for the answer"
            raise PolicyError(message, where="/response_format", hint=hint)
        values = Values(self._builder.respell(encode), order=self._policy.key_order)
        return encode(write_answer(self._policy.answer, values))


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
        """Returns the header that the prompt lacks, if any, and the rest of the reasoning block."""
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
        """Returns a text at the beginning of the turn, perhaps after the header that the prompt
        lacks."""
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
