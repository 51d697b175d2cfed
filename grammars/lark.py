"""Format x tools x policy x start state -> a Lark grammar for llguidance.

The grammar covers the whole assistant turn, from the first token after the rendered prompt to the
end of turn. End-of-generation tokens are not in it: the matcher admits them where it accepts.
"""

import json
from collections.abc import Mapping, Sequence

from grammars.errors import PolicyError, SchemaError, ToolError
from grammars.lark_tagged import TaggedRules
from grammars.lark_values import Rules, escape_regex, quote
from grammars.turn import Choice, Policy, Start, State, Think, Tool
from grammars.wire import (
    Format,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    Node,
    TaggedArguments,
    is_taggable,
)

SPACE = r"/[ \t\r\n]{1,4}/"
"""White space that models add or leave out in front of a block; templates write at most two."""


def build_grammar(
    format: Format,
    tools: Sequence[Tool],
    policy: Policy | None = None,
    state: State | None = None,
    markers: Mapping[str, int] | None = None,
) -> str:
    """The grammar of one assistant turn.

    Args:
        format: the model's wire format.
        tools: the tools on offer.
        policy: what the request allows; by default anything.
        state: where the rendered prompt ends.
        markers: token ids of those markers that the vocabulary has as one token.

    Raises:
        PolicyError, ToolError: the request cannot be satisfied, or a name cannot be written.
        SchemaError: a schema that this format cannot write.
    """
    policy = policy or Policy()
    turn = _Turn(format, policy.select(tools), policy, markers or {})
    return turn.build(state or State())


class _Turn:
    """One grammar under way."""

    def __init__(
        self, format: Format, tools: tuple[Tool, ...], policy: Policy, ids: Mapping[str, int]
    ):
        self.format = format
        self.tools = tools
        self.policy = policy
        self.ids = ids
        self.rules = Rules(_style(format))

    def build(self, state: State) -> str:
        body = self.rules.define(self._body(), "body")
        start = f"{self._thought(state.start)} {body}"
        return f"%llguidance {{}}\nstart: {start.strip()}\n{self.rules.text()}"

    def _thought(self, start: Start) -> str:
        """The reasoning block, as far as the prompt has not written it."""
        reasoning, think = self.format.reasoning, self.policy.think
        if reasoning is None:
            if think is Think.REQUIRED:
                hint = "Leave thinking optional"
                raise PolicyError(f"format {self.format.name} has no reasoning block", hint=hint)
            return ""
        closed = self._until(reasoning.closer.text)
        if start is Start.OPEN:
            at_once = f"{self._space()}? {self._at(reasoning.closer.text)}"
            return at_once if think is Think.FORBIDDEN else closed
        if start is Start.CLOSED and think is Think.REQUIRED:
            hint = "Leave thinking optional, or let the template open the block"
            raise PolicyError("the prompt has closed the reasoning block", hint=hint)
        if start is Start.CLOSED or think is Think.FORBIDDEN:
            return ""
        block = f"{self._space()}? {self._at(reasoning.opener.text)} {closed}"
        return block if think is Think.REQUIRED else f"({block})?"

    def _body(self) -> str:
        text = f"{self._free()}?"
        if not self.tools:
            return text
        required = self.policy.choice is Choice.REQUIRED
        options = [] if required else [text]
        for opener, nodes in self.format.openings.items():
            before = f"{self._space()}? {self._at(opener)}" if required else self._until(opener)
            options.append(f"{before} {self._calls(nodes)}")
        return " | ".join(options)

    def _calls(self, first: tuple[Node, ...]) -> str:
        """The calls, from behind the first opener to the end of the turn."""
        call = self._any_call(self.format.call[1:])
        between = quote(self.format.between) if self.format.between else ""
        more = f"({between} {self._at(self.format.opener.text)} {call})*"
        after = f"{quote(self.format.after)}?" if self.format.after else ""
        more = more if self.policy.parallel else ""
        return self.rules.define(f"{self._any_call(first)} {more} {after}", "calls")

    def _any_call(self, nodes: tuple[Node, ...]) -> str:
        return self.rules.define(" | ".join(self._named(t, nodes) for t in self.tools), "call")

    def _named(self, tool: Tool, nodes: tuple[Node, ...]) -> str:
        try:
            return self._call(tool, nodes)
        except SchemaError as e:
            raise SchemaError(f"tool {tool.name!r}: {e.message}", where=e.where, hint=e.hint) from e

    def _call(self, tool: Tool, nodes: tuple[Node, ...]) -> str:
        """One call of that tool, without its opener."""
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
                case JsonCall():
                    text += open_json_call(node, tool.name)
                    hole = self.rules.value(tool.schema.node, tool.schema.definitions)
                    after = "}"
                case TaggedArguments():
                    hole, after = TaggedRules(node, self.rules).arguments(tool.schema), ""
                case Marker(marker):
                    hole, after = self._at(marker), ""
            parts += [quote(text)] * bool(text) + [hole]
            text = after
        return " ".join(parts + [quote(text)] * bool(text))

    def _at(self, marker: str) -> str:
        """The marker itself."""
        return f"<[{self.ids[marker]}]>" if marker in self.ids else quote(marker)

    def _until(self, marker: str) -> str:
        """Free text that ends with the marker."""
        if marker in self.ids:
            return self.rules.define(f"{self._free()}? {self._at(marker)}", "until")
        return self.rules.define(f"{self._free()} {quote(marker)}", "until", lazy=True)

    def _free(self) -> str:
        """Any text without a marker, also where a marker is spelled in ordinary tokens."""
        spelled = "|".join(escape_regex(m) for m in self.format.reserved)
        return self.rules.terminal(f"/(?s:.*)/ & ~/(?s:.*)({spelled})(?s:.*)/", "FREE")

    def _space(self) -> str:
        return self.rules.terminal(SPACE, "SPACE")


def _style(format: Format) -> JsonStyle:
    holes = (n for n in format.call if isinstance(n, JsonCall | TaggedArguments))
    return next((hole.style for hole in holes), JsonStyle())


def open_json_call(node: JsonCall, name: str) -> str:
    """A JSON call up to where its arguments begin."""
    style = node.style
    spelled = [json.dumps(s, ensure_ascii=style.ascii) for s in (node.name_key, name)]
    arguments = json.dumps(node.arguments_key, ensure_ascii=style.ascii)
    return "{" + style.key.join(spelled) + style.item + arguments + style.key


def check_name(format: Format, name: str) -> None:
    """Refuses a name that the format cannot write without a doubt (`ToolError`)."""
    doubtful = not is_taggable(name) or any(c in name for c in "\"'\r\t {}")
    if Name() in format.call and doubtful:
        hint = "Use letters, digits, '_', '-' and '.'"
        raise ToolError(f"format {format.name} cannot write the name {name!r}", hint=hint)
