"""Format x tools x policy x start state -> a Lark grammar for llguidance.

The grammar covers the whole assistant turn, from the first token after the rendered prompt to the
end of turn. End-of-generation tokens are not in it: the matcher admits them where it accepts.
"""

from collections.abc import Mapping, Sequence

from grammars.build.answer import answer_rule
from grammars.build.calls import CallRules
from grammars.build.values import Rules, escape_regex, quote
from grammars.errors import PolicyError
from grammars.spelling.json_call import begin_call, style_answer, style_arguments
from grammars.turn import Choice, JsonAnswer, Policy, RegexAnswer, Start, State, Think, Tool
from grammars.wire.format import Content, Format, JsonCall, Marker


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
            (`get_captures` of llguidance); that is a second reading, beside the parser's. Not of
            calls in Python; and of nested tags also the arguments before any optional one.

    Raises:
        PolicyError, ToolError: the request cannot be satisfied, or a name cannot be written.
        SchemaError: a schema that this format cannot write.
    """
    policy = policy or Policy()
    rules = Rules(style_arguments(format.hole), markers, policy.key_order)
    selected = policy.select(tools)
    names = [tool.name for tool in tools]
    return _Turn(format, selected, policy, state or State(), rules, captures, names).build()


class _Turn:
    """One grammar under way."""

    def __init__(
        self,
        format: Format,
        tools: tuple[Tool, ...],
        policy: Policy,
        state: State,
        rules: Rules,
        captures: bool,
        names: Sequence[str],
    ):
        self.format = format
        self.tools = tools
        self.policy = policy
        self.state = state
        self.rules = rules
        self.calls = CallRules(format, tools, policy, state, rules, captures, names)

    def build(self) -> str:
        body = self.rules.define(self._body(), "body")
        start = f"{self._thought()} {body}"
        return f"%llguidance {{}}\nstart: {start.strip()}\n{self.rules.text()}"

    def _thought(self) -> str:
        """The reasoning block, as far as the prompt has not written it."""
        reasoning, think, start = self.format.reasoning, self.policy.think, self.state.start
        if reasoning is None:
            if think is Think.REQUIRED:
                hint = "Leave thinking optional"
                raise PolicyError(f"format {self.format.name} has no reasoning block", hint=hint)
            return ""
        after = f" {pad}" if (pad := self._pad(reasoning.after)) else ""
        closed = self._until(reasoning.closer.text) + after
        if start is Start.OPEN:
            at_once = self.calls.spaced(reasoning.closer.text) + after
            return at_once if think is Think.FORBIDDEN else closed
        if start is Start.CLOSED and think is Think.REQUIRED:
            hint = "Leave thinking optional, or let the template open the block"
            raise PolicyError("the prompt has closed the reasoning block", hint=hint)
        if start is Start.CLOSED:
            if self.policy.answer is not None or self.state.lead:
                return self._pad(self.state.pad)
            return f"({self.calls.spaced(reasoning.closer.text)})?"  # some models close it again
        first = reasoning.starts_closed and not self.state.lead and self.policy.answer is None
        shut = f"({self.calls.spaced(reasoning.closer.text)})?" if first else ""
        if think is Think.FORBIDDEN or self.state.lead:
            return shut or self._pad(self.state.pad)
        block = f"{self.calls.spaced(reasoning.opener.text)} {closed}"
        if think is Think.REQUIRED:
            return block
        return f"({block} | {shut})" if shut else f"({block})?"

    def _body(self) -> str:
        """Content, calls, or content and calls; with an answer asked for, it or calls."""
        required = self.tools and self.policy.choice is Choice.REQUIRED
        options = [] if required else [o for c in self.format.contents for o in self._whole(c)]
        if self.tools and self.format.bare is not None:
            self._refuse_ambiguous(self.format.bare)
            options.append(self.calls.calls(self.format.call, blank=True))
        elif self.tools:
            options += [o for opening in self.format.openings for o in self._opened(opening)]
        body = " | ".join(dict.fromkeys(options))
        plain = required or self.policy.answer is not None or self.state.lead
        is_free = plain or Content() in self.format.contents
        return body if is_free else f"({body} | {self.calls.space()})?"

    def _whole(self, way: Content) -> list[str]:
        """The turn as content alone."""
        head = self._headed(way.opener)
        if head is None or (self.policy.answer is not None and way != self.format.contents[0]):
            return []
        if self.policy.answer is not None:
            text = self._closed_answer(way.closer) if way.closer else self._answer()
        else:
            text = self._until(way.closer) if way.closer else f"{self._free(content=True)}?"
        return [f"{head} {text}{self.calls.tail}".strip()]

    def _opened(self, opening: str) -> list[str]:
        """Calls that are opened in this way: at once, or behind content."""
        calls = self.calls.calls(self.format.openings[opening], opening)
        at_once, lead = list[str](), self.state.lead
        if not lead and self._is_shared(opening):
            # The lexer would not give up `to=user` for `to=`: the name goes into one terminal.
            nodes = (Marker(opening), *self.format.openings[opening])
            at_once = [self.calls.calls(nodes, opening, blank=True)]
        elif not lead:
            at_once = [f"{self.calls.spaced(opening)} {calls}"]
        elif (head := self._headed(opening)) is not None:
            at_once = [f"{head} {calls}".strip()]
        if self.policy.choice is Choice.REQUIRED or self.policy.answer is not None:
            return at_once
        ways = [c for c in self.format.contents if c.calls]
        if ways == [Content()] and not lead:
            return [f"{self._until(opening)} {calls}"]
        return at_once + [o for c in ways for o in self._behind(c, opening, calls)]

    def _is_shared(self, opening: str) -> bool:
        """Does something else begin as calls do?"""
        block = self.format.reasoning
        others = [c.opener for c in self.format.contents] + ([block.opener.text] if block else [])
        return any(other.startswith(opening) for other in others)

    def _behind(self, way: Content, opening: str, calls: str) -> list[str]:
        head = self._headed(way.opener)
        if head is None:
            return []
        text = self._until(way.closer or opening)
        if way.closer:
            text += f" {self.calls.spaced(opening)}"
        return [f"{head} {text} {calls}".strip()]

    def _headed(self, text: str) -> str | None:
        """What opens content or calls, without what the prompt has written of it."""
        lead = self.state.lead
        if text and not lead and self.policy.answer is None:
            return self.calls.spaced(text)
        return self.rules.fixed(text[len(lead) :]) if text.startswith(lead) else None

    def _closed_answer(self, closer: str) -> str:
        """The answer and what closes it; an expression that goes on for ever has to be stopped."""
        first, answer = self.rules.cut(closer)[0], self._answer()
        if first in self.rules.ids or not isinstance(self.policy.answer, RegexAnswer):
            return f"{answer} {self.rules.fixed(closer)}"
        without = f"{answer} & ~/(?s:.*){escape_regex(closer)}(?s:.*)/"
        body = f"{self.rules.terminal(without, 'ANSWER')} {quote(first)}"
        rest = self.rules.fixed(closer[len(first) :])
        return f"{self.rules.define(body, 'answer', lazy=True)} {rest}".strip()

    def _answer(self) -> str:
        """The answer; JSON may have white space in front of it."""
        assert self.policy.answer is not None
        openings = tuple(self.format.openings) if self.tools else ()
        block = self.format.reasoning
        others = (block.opener.text,) if block else ()
        rules = self.rules.restyle(style_answer(self.format.hole))
        answer = answer_rule(self.policy.answer, rules, openings, others)
        if isinstance(self.policy.answer, JsonAnswer):
            return f"{self.calls.space()}? {answer}"
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

    def _until(self, marker: str) -> str:
        """Free text that ends with the marker."""
        first, *rest = self.rules.cut(marker)
        if first in self.rules.ids:
            return self.rules.define(f"{self._free()}? {self.rules.fixed(marker)}", "until")
        lazy = self.rules.define(f"{self._free()} {quote(first)}", "until", lazy=True)
        return " ".join([lazy, self.rules.fixed("".join(rest))]).strip()

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
