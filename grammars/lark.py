"""Format x tools x policy x start state -> a Lark grammar for llguidance.

The grammar covers the whole assistant turn, from the first token after the rendered prompt to the
end of turn. End-of-generation tokens are not in it: the matcher admits them where it accepts.
"""

import json
from collections.abc import Mapping, Sequence

from grammars.errors import PolicyError, SchemaError, ToolError
from grammars.lark_answer import answer_rule
from grammars.lark_tagged import TaggedRules
from grammars.lark_values import Rules, escape_regex, quote
from grammars.turn import Choice, JsonAnswer, Policy, Start, State, Think, Tool
from grammars.wire import (
    Format,
    Hole,
    JsonArguments,
    JsonCall,
    Literal,
    Marker,
    Name,
    Node,
    TaggedArguments,
    is_taggable,
)

BLANK = r"[ \t\r\n]"
SPACE = f"/{BLANK}{{1,4}}/"
"""White space that models add or leave out in front of a block; templates write at most two."""


def build_grammar(
    format: Format,
    tools: Sequence[Tool],
    policy: Policy | None = None,
    state: State | None = None,
    markers: Mapping[str, int] | None = None,
    *,
    captures: bool = False,
) -> str:
    """The grammar of one assistant turn.

    Args:
        format: the model's wire format.
        tools: the tools on offer.
        policy: what the request allows; by default anything.
        state: where the rendered prompt ends.
        markers: token ids of those markers that the vocabulary has as one token.
        captures: the matcher keeps the text of each call's arguments, under the tool's name
            (`get_captures` of llguidance); that is a second reading, beside the parser's.

    Raises:
        PolicyError, ToolError: the request cannot be satisfied, or a name cannot be written.
        SchemaError: a schema that this format cannot write.
    """
    policy = policy or Policy()
    turn = _Turn(format, policy.select(tools), policy, markers or {}, captures)
    return turn.build(state or State())


class _Turn:
    """One grammar under way."""

    def __init__(
        self,
        format: Format,
        tools: tuple[Tool, ...],
        policy: Policy,
        ids: Mapping[str, int],
        captures: bool,
    ):
        self.format = format
        self.tools = tools
        self.policy = policy
        self.ids = ids
        self.captures = captures
        self.rules = Rules(format.hole.style)

    def build(self, state: State) -> str:
        body = self.rules.define(self._body(), "body")
        start = f"{self._thought(state)} {body}"
        return f"%llguidance {{}}\nstart: {start.strip()}\n{self.rules.text()}"

    def _thought(self, state: State) -> str:
        """The reasoning block, as far as the prompt has not written it."""
        reasoning, think, start = self.format.reasoning, self.policy.think, state.start
        if reasoning is None:
            if think is Think.REQUIRED:
                hint = "Leave thinking optional"
                raise PolicyError(f"format {self.format.name} has no reasoning block", hint=hint)
            return ""
        after = f" {pad}" if (pad := self._pad(reasoning.after)) else ""
        closed = self._until(reasoning.closer.text) + after
        if start is Start.OPEN:
            at_once = self._spaced(reasoning.closer.text) + after
            return at_once if think is Think.FORBIDDEN else closed
        if start is Start.CLOSED and think is Think.REQUIRED:
            hint = "Leave thinking optional, or let the template open the block"
            raise PolicyError("the prompt has closed the reasoning block", hint=hint)
        if start is Start.CLOSED or think is Think.FORBIDDEN:
            return self._pad(state.pad)
        block = f"{self._spaced(reasoning.opener.text)} {closed}"
        return block if think is Think.REQUIRED else f"({block})?"

    def _body(self) -> str:
        """Content, calls, or content and calls; with an answer asked for, it or calls."""
        answer = self.policy.answer
        text = f"{self._free(content=True)}?" if answer is None else self._answer()
        if not self.tools:
            return text
        required = self.policy.choice is Choice.REQUIRED
        options = [] if required else [text]
        if self.format.bare is not None:
            self._refuse_ambiguous(self.format.bare)
            return " | ".join([*options, self._calls(self.format.call, BLANK)])
        for opener, nodes in self.format.openings.items():
            at_once = required or answer is not None
            before = self._spaced(opener) if at_once else self._until(opener)
            options.append(f"{before} {self._calls(nodes)}")
        return " | ".join(options)

    def _answer(self) -> str:
        """The answer; JSON may have white space in front of it."""
        assert self.policy.answer is not None
        openings = tuple(self.format.openings) if self.tools else ()
        block = self.format.reasoning
        others = (block.opener.text,) if block else ()
        answer = answer_rule(self.policy.answer, self.rules, openings, others)
        if isinstance(self.policy.answer, JsonAnswer):
            return f"{self._space()}? {answer}"
        return answer

    def _pad(self, pad: str) -> str:
        """White space that a template writes behind the reasoning, and that is no part of what
        comes next; text and calls may begin with any, but an answer of a given form may not."""
        answer = self.policy.answer
        is_exact = answer is not None and not isinstance(answer, JsonAnswer)
        return f"({quote(pad)})?" if pad and is_exact else ""

    def _refuse_ambiguous(self, bare: JsonCall) -> None:
        """Refuses an answer that could be read as a call."""
        answer = self.policy.answer
        if answer is None or self.policy.choice is Choice.REQUIRED:
            return
        if not isinstance(answer, JsonAnswer):
            raise PolicyError(
                f"format {self.format.name} cannot tell such an answer from a call",
                where="/response_format",
                hint="Use a JSON schema for the answer, or tool_choice none",
            )
        keys = (bare.name_key, bare.arguments_key)
        if answer.schema.can_have(keys):
            raise PolicyError(
                f"an answer with the keys {keys[0]!r} and {keys[1]!r} could be read as a call",
                where="/response_format",
                hint="Rename one of them, close the object, or use tool_choice none",
            )

    def _calls(self, first: tuple[Node, ...], blank: str = "") -> str:
        """The calls, from behind the first opener to the end of the turn."""
        call = self._any_call(first, blank)
        after = f"{quote(self.format.after)}?" if self.format.after else ""
        more = ""
        if self.policy.parallel and not self.format.single and self.format.opener is not None:
            between = quote(self.format.between) if self.format.between else ""
            again = self._any_call(self.format.call[1:])
            more = f"({between} {self._at(self.format.opener.text)} {again})*"
        return self.rules.define(f"{call} {more} {after}", "calls")

    def _any_call(self, nodes: tuple[Node, ...], blank: str = "") -> str:
        options = " | ".join(self._named(t, nodes, blank) for t in self.tools)
        return self.rules.define(options, "call")

    def _named(self, tool: Tool, nodes: tuple[Node, ...], blank: str) -> str:
        try:
            return self._call(tool, nodes, blank)
        except SchemaError as e:
            raise SchemaError(f"tool {tool.name!r}: {e.message}", where=e.where, hint=e.hint) from e

    def _call(self, tool: Tool, nodes: tuple[Node, ...], blank: str) -> str:
        """One call of that tool, without its opener; behind `blank`, which is an expression."""
        check_name(self.format, tool.name)
        parts: list[str] = []
        text = ""
        for node in nodes:
            match node:
                case Literal(literal):
                    text += literal
                    continue
                case Name():
                    text += tool.name
                    continue
                case JsonCall() if blank and self.policy.answer is not None:
                    # The lexer would not give up one terminal for the brace that opens an answer.
                    head = " ".join(map(quote, cut_json_call(node, tool.name)))
                    hole, after = f"{self._space()}? {head} {self._value(tool)}", "}"
                case JsonCall():
                    text += open_json_call(node, tool.name)
                    hole, after = self._value(tool), "}"
                case JsonArguments():
                    hole, after = self._value(tool), ""
                case TaggedArguments():
                    hole, after = TaggedRules(node, self.rules).arguments(tool.schema), ""
                case Marker(marker):
                    hole, after = self._at(marker), ""
            if self.captures and isinstance(node, Hole):
                hole = self.rules.capture(hole, tool.name)
            parts += [self._text(text, blank)] * bool(text) + [hole]
            text, blank = after, ""
        return " ".join(parts + [quote(text)] * bool(text))

    def _value(self, tool: Tool) -> str:
        return self.rules.value(tool.schema.node, tool.schema.definitions)

    def _text(self, text: str, blank: str) -> str:
        """The text itself. With white space in front it is one terminal: content that begins with
        the same white space would win over a terminal of white space alone."""
        if not blank:
            return quote(text)
        return self.rules.terminal(f"/{blank}{{0,4}}{escape_regex(text)}/", "CALL")

    def _at(self, marker: str) -> str:
        """The marker itself."""
        return f"<[{self.ids[marker]}]>" if marker in self.ids else quote(marker)

    def _spaced(self, marker: str) -> str:
        """The marker, behind the white space that models write or leave out; where the marker is
        text, one terminal of both, for content may begin with white space. Where an answer takes
        the place of content the lexer would not give up such a terminal for the answer."""
        if marker in self.ids or self.policy.answer is not None:
            return f"{self._space()}? {self._at(marker)}"
        return self._text(marker, BLANK)

    def _until(self, marker: str) -> str:
        """Free text that ends with the marker."""
        if marker in self.ids:
            return self.rules.define(f"{self._free()}? {self._at(marker)}", "until")
        return self.rules.define(f"{self._free()} {quote(marker)}", "until", lazy=True)

    def _free(self, *, content: bool = False) -> str:
        """Any text without a marker, also where a marker is spelled in ordinary tokens; as content,
        where no marker opens calls, any such text that does not begin as a call does."""
        spelled: list[str] = []
        if self.format.reserved:
            words = "|".join(map(escape_regex, self.format.reserved))
            spelled.append(f"(?s:.*)({words})(?s:.*)")
        if content and self.format.bare and self.tools:
            spelled.append(begin_call(self.format.bare))
        return self.rules.terminal(" & ".join(["/(?s:.*)/", *(f"~/{s}/" for s in spelled)]), "FREE")

    def _space(self) -> str:
        return self.rules.terminal(SPACE, "SPACE")


def begin_call(bare: JsonCall) -> str:
    """An expression for texts that begin as this JSON object does."""
    key = escape_regex(json.dumps(bare.name_key, ensure_ascii=bare.style.ascii))
    return rf"{BLANK}*\{{{BLANK}*{key}(?s:.*)"


def open_json_call(node: JsonCall, name: str) -> str:
    """A JSON call up to where its arguments begin."""
    return "".join(cut_json_call(node, name))


def cut_json_call(node: JsonCall, name: str) -> tuple[str, ...]:
    """The same, cut into the pieces of other JSON values."""
    style = node.style
    written = (node.name_key, name, node.arguments_key)
    name_key, name, arguments_key = (json.dumps(s, ensure_ascii=style.ascii) for s in written)
    return ("{", name_key, style.key, name, style.item, arguments_key, style.key)


def check_name(format: Format, name: str) -> None:
    """Refuses a name that the format cannot write without a doubt (`ToolError`)."""
    doubtful = not is_taggable(name) or any(c in name for c in "\"'\r\t {}[]")
    if Name() in format.call and doubtful:
        hint = "Use letters, digits, '_', '-' and '.'"
        raise ToolError(f"format {format.name} cannot write the name {name!r}", hint=hint)
