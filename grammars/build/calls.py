"""The calls of a turn in Lark."""

from collections.abc import Callable, Sequence

from grammars.build.nested import NestedRules
from grammars.build.python import PythonRules
from grammars.build.tagged import TaggedRules
from grammars.build.values import Rules, escape_regex, quote
from grammars.errors import SchemaError
from grammars.names import check_name
from grammars.spelling.json_call import (
    ANY_ID,
    BLANK,
    WRITTEN_ID,
    close_json_call,
    cut_json_call,
    open_json_call,
)
from grammars.turn import Policy, State, Tool
from grammars.wire.format import (
    CallId,
    CallIndex,
    Format,
    Hole,
    JsonArguments,
    JsonCall,
    Literal,
    Marker,
    Name,
    NestedArguments,
    Node,
    PythonArguments,
    TaggedArguments,
)

SPACE = f"/{BLANK}{{1,4}}/"
"""White space that models add or leave out in front of a block; templates write at most two."""

COUNTED = 8
"""So many calls of a turn have exactly the index that is next; those behind may have any."""

INDEX = "/0|[1-9][0-9]{0,5}/"


class CallRules:
    """Adds the rules of calls to `rules`.

    Args:
        format, tools, policy, state: as in `build_grammar`.
        captures: the matcher keeps the text of each call's arguments.
        names: those of all tools, also of those that the policy leaves out.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool],
        policy: Policy,
        state: State,
        rules: Rules,
        captures: bool,
        names: Sequence[str] = (),
    ):
        self.format = format
        self.tools = tools
        self.policy = policy
        self.state = state
        self.rules = rules
        self.captures = captures
        self.names = names
        self._arguments: dict[str, str] = {}

    @property
    def tail(self) -> str:
        """What may stand at the end of the turn."""
        ends = [end for end in self.format.inner_ends if end in self.rules.ids]
        texts = [self.format.tail, *ends] if self.format.tail else ends
        return f" ({' | '.join(map(self.rules.fixed, texts))})?" if texts else ""

    def calls(self, first: tuple[Node, ...], opener: str = "", *, blank: bool = False) -> str:
        """The calls, from behind the first opener to the end of the turn."""
        format = self.format
        together = bool(format.opener and opener == format.opener.text) or not format.opening
        several = self.policy.parallel and not format.single and format.bare is None
        after = f"{quote(format.after)}?" if format.after else ""
        if isinstance(format.hole, PythonArguments):
            for tool in self.tools:
                check_name(format, tool.name)
            chain = PythonRules(format, self.tools, self.names, self.rules, several=several)
            return self.rules.define(f"{chain.calls(first)} {after}{self.tail}".strip(), "calls")
        more = self._more(1) if several and together else ""
        close = self.rules.fixed("".join(node.text for node in format.closes(opener)))
        body = f"{self._any(first, 0, blank)} {more} {close} {after}{self.tail}"
        return self.rules.define(" ".join(body.split(" ")), "calls")

    def _more(self, number: int) -> str:
        """Any number of calls behind so many."""
        counts = find_index(self.format)
        exact = counts is not None and counts.count(self.state.calls, 0) is not None
        # One text of what stands between and how a call begins: the lexer would not give up the
        # beginning of what closes the calls for a short text of its own.
        nodes = (Literal(self.format.between), *self.format.call)
        call = self._any(nodes, number if exact and number < COUNTED else None)
        return (
            f"({call})*"
            if not exact or number == COUNTED
            else f"({call} {self._more(number + 1)})?"
        )

    def _any(self, nodes: tuple[Node, ...], number: int | None, blank: bool = False) -> str:
        options = " | ".join(self._named(t, nodes, number, blank) for t in self.tools)
        return self.rules.define(options, "call")

    def _named(self, tool: Tool, nodes: tuple[Node, ...], number: int | None, blank: bool) -> str:
        try:
            return self._call(tool, nodes, number, blank)
        except SchemaError as e:
            raise SchemaError(f"tool {tool.name!r}: {e.message}", where=e.where, hint=e.hint) from e

    def _call(self, tool: Tool, nodes: tuple[Node, ...], number: int | None, blank: bool) -> str:
        """One call of that tool; behind white space that models write or leave out."""
        check_name(self.format, tool.name)
        parts: list[str] = []
        text = ""
        for node in nodes:
            match node:
                case Literal(literal) | Marker(literal):
                    text += literal
                    continue
                case Name():
                    text += tool.name
                    continue
                case CallIndex() if (index := self._index(node, number)) is not None:
                    text += index
                    continue
                case CallId() | CallIndex():
                    hole, after = self._id(node), ""
                case JsonCall() if blank and self.policy.answer is not None:
                    # The lexer would not give up one terminal for the brace that opens an answer.
                    head = " ".join(map(quote, cut_json_call(node, tool.name)))
                    hole, after = f"{self.space()}? {head} {self._value(tool)}", "}"
                case JsonCall():
                    id = "" if node.id is None else self._index(node.id, number) or ANY_ID
                    text += open_json_call(node, tool.name, id)
                    hole, after = self._value(tool), close_json_call(node, id)
                case JsonArguments():
                    hole, after = self._value(tool), ""
                case PythonArguments():
                    raise TypeError("such calls are one chain")
                case NestedArguments():
                    hole, after = self._nested(node, tool), ""
                case TaggedArguments():
                    hole, after = self._tagged(node, tool), ""
            if self.captures and isinstance(node, Hole):
                hole = self.rules.capture(hole or quote(""), tool.name)
            parts += [self._text(text, blank)] if text else []
            parts += [hole] if hole else []
            text, blank = after, False
        return " ".join([*parts, self._text(text)] if text else parts)

    def _index(self, node: CallId | CallIndex, number: int | None) -> str | None:
        """The index of that call of the turn; None where it may be any."""
        if isinstance(node, CallId) or number is None:
            return None
        index = node.count(self.state.calls, number)
        return None if index is None else str(index)

    def _id(self, node: CallId | CallIndex) -> str:
        return self.rules.terminal(
            INDEX if isinstance(node, CallIndex) else f"/{node.pattern}/", "ID"
        )

    def _value(self, tool: Tool) -> str:
        value = self.rules.value
        return self._once(tool, lambda: value(tool.schema.node, tool.schema.definitions))

    def _nested(self, node: NestedArguments, tool: Tool) -> str:
        nested = NestedRules(node, self.rules, tool.schema.definitions)
        return self._once(tool, lambda: nested.arguments(tool.schema))

    def _tagged(self, node: TaggedArguments, tool: Tool) -> str:
        return self._once(tool, lambda: TaggedRules(node, self.rules).arguments(tool.schema))

    def _once(self, tool: Tool, write: Callable[[], str]) -> str:
        """The arguments of a tool, written when they are needed first."""
        if tool.name not in self._arguments:
            self._arguments[tool.name] = write()
        return self._arguments[tool.name]

    def _text(self, text: str, blank: bool = False) -> str:
        """The text itself. With white space in front it is one terminal: content that begins with
        the same white space would win over a terminal of white space alone."""
        head, *rest = text.split(WRITTEN_ID)
        parts = [self._spaced(head) if blank else self.rules.fixed(head)]
        for piece in rest:
            node = self.format.hole
            assert isinstance(node, JsonCall)
            assert node.id is not None
            parts += [self._id(node.id), self.rules.fixed(piece)]
        return " ".join(parts)

    def spaced(self, marker: str) -> str:
        """The marker, behind the white space that models write or leave out; where the marker is
        text, one terminal of both, for content may begin with white space. Where an answer takes
        the place of content the lexer would not give up such a terminal for the answer."""
        if self.policy.answer is None:
            return self._spaced(marker)
        text = marker.lstrip()
        if text == marker:
            return f"{self.space()}? {self.rules.fixed(marker)}"
        # Two terminals of white space could not share what is written: the first would take it all.
        lead = escape_regex(marker.removesuffix(text))
        space = self.rules.terminal(f"/{BLANK}{{0,4}}{lead}/", "SPACE")
        return f"{space} {self.rules.fixed(text)}"

    def _spaced(self, text: str) -> str:
        first, *rest = self.rules.cut(text)
        if first in self.rules.ids:
            return f"{self.space()}? {self.rules.fixed(text)}"
        head = self.rules.terminal(f"/{BLANK}{{0,4}}{escape_regex(first)}/", "CALL")
        return " ".join([head, self.rules.fixed("".join(rest))]).strip()

    def space(self) -> str:
        """White space in front of a block."""
        return self.rules.terminal(SPACE, "SPACE")


def find_index(format: Format) -> CallIndex | None:
    """Where the format counts calls."""
    nodes = [node.id if isinstance(node, JsonCall) else node for node in format.call]
    return next((node for node in nodes if isinstance(node, CallIndex)), None)
