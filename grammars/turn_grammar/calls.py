"""Grammar rules for the calls of a turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from grammars.errors import SchemaError
from grammars.turn import Choice, Policy, State, Tool
from grammars.turn_grammar.arguments.kind import ArgumentsKind, CallChain, CallsSpec, Piece
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.spaces import SpacedTexts
from grammars.turn_grammar.values import Values
from grammars.wire.format import CallId, CallIndex, Format, Literal, Marker, Name, Node, spell_fixed

COUNTED = 8
"""For this many calls of a turn, the grammar requires exactly the next index; later calls may have
any index."""


@dataclass(frozen=True)
class TurnSpec:
    """What the grammar of a turn is built from: also the names of tools that the policy leaves out,
    whether the matcher records the text of each call's arguments, and texts that may end a turn
    with calls."""

    format: Format
    tools: Sequence[Tool]
    names: Sequence[str]
    policy: Policy
    state: State
    captures: bool
    text_ends: Sequence[str]

    @property
    def must_call(self) -> bool:
        return bool(self.tools) and self.policy.choice is Choice.REQUIRED


class CallRules:
    """Adds the rules of calls to a grammar."""

    def __init__(self, turn: TurnSpec, kind: ArgumentsKind, values: Values, texts: SpacedTexts):
        self._turn, self._format, self._kind = turn, turn.format, kind
        self._texts = texts
        self._builder = values.builder
        self._allows_several = turn.policy.parallel and not turn.format.single
        spec = CallsSpec(turn.tools, turn.names, self._allows_several, values)
        self._rules = kind.make_rules(spec)
        self._known: dict[str, ir.Expression] = {}  # the arguments, by tool name

    @property
    def tail(self) -> ir.Expression:
        """The optional text at the end of any turn."""
        texts = [self._format.tail] if self._format.tail else []
        texts += [end for end in self._format.inner_ends if end in self._builder.ids]
        return ir.optional(ir.choice(map(self._builder.fixed, texts))) if texts else ir.EMPTY

    def _end(self, following: ir.Expression, alternatives: Sequence[str]) -> ir.Expression:
        """Returns what may stand at the end of a turn with calls, instead of the alternatives."""
        texts = self._turn.text_ends
        end = ir.optional(ir.choice(map(ir.Literal, texts))) if texts else ir.EMPTY
        if following == ir.EMPTY and self._allows_several:
            # Models write a line break here. If it could only be the one in front of a further
            # call, the mask would make them write that call.
            following = self._texts.space_instead_of([*alternatives, self._format.tail])
        return ir.sequence(following, self.tail, end)

    def calls(
        self,
        first: tuple[Node, ...],
        opener: str = "",
        *,
        is_several: bool = False,
        spaced: bool = False,
        lead: str = "",
        following: ir.Expression = ir.EMPTY,
    ) -> ir.Expression:
        """Returns a rule for the calls, from after the text that opened them to the end of the
        turn; NOTHING: no call begins with the lead, what the prompt has written of it. Of the first
        call, these nodes are not written yet; content may follow the calls."""
        format = self._format
        after = ir.optional(ir.Literal(format.after)) if format.after else ir.EMPTY
        if isinstance(self._rules, CallChain):
            for tool in self._turn.tools:
                self._kind.check_name(tool.name)
            chained = self._rules.calls(first, spaced=spaced, lead=lead)
            if chained == ir.NOTHING:
                return ir.NOTHING
            written = ir.sequence(chained, after, self._end(following, []))
            return self._builder.define(written, "calls")
        more = ir.EMPTY
        alternatives: list[str] = []
        closing = format.closes(opener)
        if format.several is not None and is_several:
            more = self._more(1, format.several.between)
            alternatives.append(format.several.between + format.call_head)
            closing = format.several.closing
        elif self._allows_several and format.several is None and self._opens_all(opener):
            more = self._more(1, format.between)
            alternatives.append(format.between + format.call_head)
        alternatives.append(spell_fixed(closing))
        close = self._texts.text_after(spell_fixed(closing))
        rest = ir.sequence(more, close)
        if not format.closes_one:
            rest = ir.optional(rest)
        call = self._any_tool(first, 0, spaced=spaced, lead=lead)
        if call == ir.NOTHING:
            return ir.NOTHING
        written = ir.sequence(call, rest, after, self._end(following, alternatives))
        return self._builder.define(written, "calls")

    def _opens_all(self, opener: str) -> bool:
        """Returns whether another call may follow a call that this text opened."""
        format = self._format
        return not format.opening or format.bare is not None or format.is_own(opener)

    def _more(self, number: int, between: str) -> ir.Expression:
        """Returns any number of further calls, after `number` calls of this turn."""
        counts = find_index(self._format)
        is_exact = counts is not None and counts.count(self._turn.state.calls, 0) is not None
        # One text for the separator and the beginning of the call: between two short texts, the
        # lexer would not consider the closer of the calls, which may begin in the same way.
        is_loose = self._format.is_loose
        nodes = (Literal(between), *self._format.call)
        if not is_exact or number == COUNTED:
            return ir.many(self._any_tool(nodes, None, spaced=is_loose))
        call = self._any_tool(nodes, number, spaced=is_loose)
        return ir.optional(ir.sequence(call, self._more(number + 1, between)))

    def _any_tool(
        self, nodes: tuple[Node, ...], number: int | None, *, spaced: bool = False, lead: str = ""
    ) -> ir.Expression:
        """Returns a rule for one call of any tool, the first after `number` calls of this turn
        (None: not known). NOTHING: no call begins with the lead."""
        options: list[ir.Expression] = []
        for tool in self._turn.tools:
            try:
                pieces = self._write_call(tool, nodes, number, spaced=spaced)
            except SchemaError as e:
                message = f"tool {tool.name!r}: {e.message}"
                raise SchemaError(message, where=e.where, hint=e.hint) from e
            rest = _cut_written(pieces, lead) if lead else pieces
            if rest is not None:
                options.append(self._join(rest, spaced=spaced))
        return self._builder.define(ir.choice(options), "call") if options else ir.NOTHING

    def _write_call(
        self, tool: Tool, nodes: tuple[Node, ...], number: int | None, *, spaced: bool
    ) -> list[str | ir.Expression]:
        """Writes a call: texts, of which no two are adjacent, and expressions."""
        pieces: list[str | ir.Expression] = []
        for node in nodes:
            has_text_alone = all(isinstance(piece, str) for piece in pieces)
            for piece in self._write_node(node, tool, number, apart=spaced and has_text_alone):
                if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
                    pieces[-1] += piece
                else:
                    pieces.append(piece)
        return pieces

    def _join(self, pieces: Sequence[str | ir.Expression], *, spaced: bool) -> ir.Expression:
        """Returns the pieces one after the other; `spaced`: after optional white space."""
        parts: list[ir.Expression] = []
        for piece in pieces:
            if not isinstance(piece, str):
                parts.append(piece)
            elif piece and parts:
                parts.append(self._texts.text_after(piece))
            elif piece:
                parts.append(self._texts.text(piece, spaced=spaced or self._format.is_loose))
        return ir.sequence(*parts)

    def _write_node(
        self, node: Node, tool: Tool, number: int | None, *, apart: bool
    ) -> list[str | ir.Expression]:
        """Writes one node of a call: texts, which join adjacent texts in one lexeme, and
        expressions. If `apart`, something other than a call may also begin at this node."""
        match node:
            case Literal(text) | Marker(text):
                return [text]
            case Name():
                return [tool.name]
            case CallId() | CallIndex():
                return [self._index(node, number) or self._id(node)]
            case _:
                return self._write_arguments(tool, number, apart=apart)

    def _write_arguments(
        self, tool: Tool, number: int | None, *, apart: bool
    ) -> list[str | ir.Expression]:
        id_hole = self._kind.id
        id = None if id_hole is None else self._index(id_hole, number)
        arguments = self._arguments(tool)
        opening = list(map(self._write_piece, self._kind.open_call(tool.name, id)))
        if opening and apart and self._texts.is_answer_first:
            # With one longer terminal, the lexer would not consider the answer's opening brace.
            texts = [ir.Literal(piece) if isinstance(piece, str) else piece for piece in opening]
            opening = [ir.optional(self._texts.space()), *texts]
        closing = list(map(self._write_piece, self._kind.close_call(id)))
        return [*opening, arguments, *closing]

    def _write_piece(self, piece: Piece) -> str | ir.Expression:
        return piece if isinstance(piece, str) else self._id(piece)

    def _index(self, node: CallId | CallIndex, number: int | None) -> str | None:
        """Returns the index of this call in the turn; None: any index is allowed."""
        if isinstance(node, CallId) or number is None:
            return None
        index = node.count(self._turn.state.calls, number)
        return None if index is None else str(index)

    def _id(self, node: CallId | CallIndex) -> ir.Expression:
        return self._builder.terminal(ir.Pattern(node.pattern), "ID")

    def _arguments(self, tool: Tool) -> ir.Expression:
        """Returns the arguments of a tool. Their rules are written at the first use."""
        if tool.name not in self._known:
            assert not isinstance(self._rules, CallChain)
            self._kind.check_name(tool.name)
            self._known[tool.name] = self._rules(tool.schema)
        arguments = self._known[tool.name]
        if self._turn.captures:
            return self._builder.capture(arguments, tool.name)
        return arguments


def _cut_written(
    pieces: Sequence[str | ir.Expression], lead: str
) -> Sequence[str | ir.Expression] | None:
    """Returns the rest of a call after a text; None: its first text is another or a shorter one.
    There is no token for the rest of a marker."""
    first = pieces[0]
    if not isinstance(first, str) or not first.startswith(lead):
        return None
    return (first.removeprefix(lead), *pieces[1:])


def find_index(format: Format) -> CallIndex | None:
    holes = [*format.call, find_kind(format).id]
    return next((hole for hole in holes if isinstance(hole, CallIndex)), None)
