"""Grammar rules for calls with keyword arguments, as in Python.

A raw string ends only before a text that can follow it. The lexer must see this text to know the
end of the string: the next argument, the next call, or the closer of the calls. So the text becomes
part of the terminal of the string, and the rule continues after it. Therefore the calls of a turn
are one chain of rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from grammars.errors import SchemaError
from grammars.regex.texts import Texts
from grammars.regex.writing import escape_regex, match_any
from grammars.schema.bits import ALWAYS, KEEP, Condition
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import Extra, Node, Object, Property, Schema, String, escape
from grammars.spelling.json_call import BLANK
from grammars.spelling.keyword_arguments import (
    StringEnds,
    find_enclosing_texts,
    find_ends,
    find_extra_keys,
    is_key,
)
from grammars.spelling.parts import order_members, sort_properties
from grammars.spelling.python_values import sort_kinds
from grammars.spelling.styles import speaks_json
from grammars.turn import Tool
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.ir.nodes import (
    EMPTY,
    NOTHING,
    ZERO,
    Expression,
    Literal,
    Pattern,
    RuleReference,
    choice,
    exclude_beginning,
    guarded,
    intersection,
    optional,
    sequence,
)
from grammars.turn_grammar.values import (
    UNWRITABLE_KEYS,
    UNWRITABLE_KEYS_HINT,
    JsonStrings,
    StyledStrings,
    Values,
    match_texts,
    write_text,
)
from grammars.wire.format import CallId, CallIndex, Format, KeywordArguments, Marker, Name
from grammars.wire.format import Literal as FormatLiteral
from grammars.wire.format import Node as FormatNode


@dataclass(frozen=True)
class ChainContinuation:
    """How a call may continue after a value.

    Args:
        text: the text that shows that the value has ended.
        rest: everything after the text (and the key).
        keys: if given, one of these keys follows the text.
        condition: when this continuation is allowed, in a rule with a parameter.
    """

    text: str
    rest: Expression = EMPTY
    keys: Texts | None = None
    condition: Condition = ALWAYS


@dataclass(frozen=True)
class Value:
    """The ways to write a value.

    Args:
        whole: the forms that show their own end; None: there are none.
        raw: a terminal for the text of raw strings; None: there are none.
    """

    whole: Expression | None
    raw: Expression | None

    @property
    def is_writable(self) -> bool:
        """True if any value can be written."""
        return self.whole is not None or self.raw is not None


class KeywordRules:
    """Adds the rules of calls with keyword arguments to a grammar.

    Args:
        format: the wire format.
        tools: the tools that may be called.
        names: the names of all tools: a raw string ends before a call of any of them.
        values: writes other values into the grammar that is being built.
        several: several calls may follow each other.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool],
        names: Sequence[str],
        *,
        values: Values,
        several: bool,
    ):
        assert isinstance(format.hole, KeywordArguments)
        self.format, self.hole, self.tools, self.names = format, format.hole, tools, names
        self.values, self.builder = values, values.builder
        self.enclosing = find_enclosing_texts(format)
        self.escaped: JsonStrings | StyledStrings
        if speaks_json(self.hole.escaped):  # such strings are read as JSON
            self.escaped = JsonStrings(self.hole.escaped, self.builder)
        else:
            self.escaped = StyledStrings(self.hole.escaped, self.builder)
        self._several = several
        self._arguments: dict[str, Expression] = {}

    def calls(
        self, first: Sequence[FormatNode], *, spaced: bool = False, lead: str = ""
    ) -> Expression:
        """Returns a rule for the calls of a turn, from the first nodes to the closer of the calls.
        NOTHING: no call begins with the lead.

        Args:
            first: the nodes of the first call that are not written yet.
            spaced: allow white space before the call. It is in one terminal with the call:
                otherwise content that begins with white space would win over a terminal of white
                space alone.
            lead: what the prompt has written of the call.
        """
        options: list[Expression] = []
        for tool in self.tools:
            text, rest = self._open(first, tool.name)
            if not text.startswith(lead):
                continue
            text = text.removeprefix(lead)
            head = self.builder.fixed(text)
            if spaced:
                pattern = Pattern(f"{BLANK}{{0,{self.format.max_space}}}{escape_regex(text)}")
                head = self.builder.terminal(pattern, "CALL")
            options.append(sequence(head, rest, self._call(tool)))
        return self.builder.define(choice(options), "calls") if options else NOTHING

    def _open(self, nodes: Sequence[FormatNode], name: str) -> tuple[str, Expression]:
        """Returns what stands before the arguments of a call: the text up to its id or number, and
        the rest from there on.

        Args:
            nodes: the nodes of the call that are not written yet.
            name: the name of the tool.
        """
        texts, words = [""], list[Expression]()
        for node in nodes[: nodes.index(self.hole)]:
            match node:
                case FormatLiteral(text) | Marker(text):
                    texts[-1] += text
                case Name():
                    texts[-1] += name
                case CallId() | CallIndex():
                    words.append(self.builder.terminal(Pattern(node.pattern), "ID"))
                    texts.append("")
                case _:
                    raise TypeError("a call in Python has one hole for arguments")
        rest: list[Expression] = []
        for word, text in zip(words, texts[1:], strict=True):
            rest += [word, self.builder.fixed(text)]
        return texts[0], sequence(*rest)

    def _call(self, tool: Tool) -> Expression:
        """Returns the arguments of a tool and everything after them."""
        if tool.name not in self._arguments:
            name = self.builder.reserve("arguments")
            self._arguments[tool.name] = RuleReference(name)
            try:
                ends = find_ends(self.format, self.names, tool.schema)
                body = _Arguments(self, ends, tool.schema).write()
            except SchemaError as e:
                message = f"tool {tool.name!r}: {e.message}"
                raise SchemaError(message, where=e.where, hint=e.hint) from e
            self.builder.fill(name, body)
        return self._arguments[tool.name]

    def ways_to_finish(self, last: str) -> list[ChainContinuation]:
        """Returns the continuations after the last argument.

        Args:
            last: the text between the last argument and the end of the call.
        """
        ways = [ChainContinuation(last + self.enclosing.end)]
        if self._several:
            for tool in self.tools:
                text, rest = self._open(self.format.call, tool.name)
                text = last + self.enclosing.closer + self.format.between + text
                ways.append(ChainContinuation(text, sequence(rest, self._call(tool))))
        return ways

    def finish(self, last: str) -> Expression:
        """Returns a rule for everything after the last argument; `last` as in `ways_to_finish`."""
        options: list[Expression] = []
        for way in self.ways_to_finish(last):
            options.append(sequence(self.builder.fixed(way.text), way.rest))
        return self.builder.define(choice(options), "finished")


def _merge_ends(
    ways: Sequence[ChainContinuation], builder: GrammarBuilder
) -> Sequence[ChainContinuation]:
    """Merges the ways in which a raw string can end, so that the text of none begins with that of
    another.

    A lazy terminal ends at the shortest of its ends. If `')</run>` ends the turn and also comes
    before another call, the shorter one would win and the other call would be refused.
    """
    merged: list[ChainContinuation] = []
    for way in ways:
        longer = [other for other in ways if _is_prefix(way, other)]
        if any(_is_prefix(other, way) for other in ways):
            continue
        rests: list[Expression] = []
        for other in longer:
            rests.append(sequence(builder.fixed(other.text[len(way.text) :]), other.rest))
        if rests and way.rest == EMPTY:
            way = replace(way, rest=optional(choice(rests)))
        elif rests:
            way = replace(way, rest=choice([way.rest, *rests]))
        merged.append(way)
    return merged


def _is_prefix(way: ChainContinuation, other: ChainContinuation) -> bool:
    """Returns whether the text of the other way begins with all of this one."""
    is_longer = len(other.text) > len(way.text) and other.text.startswith(way.text)
    has_keys = way.keys is not None or other.keys is not None
    return is_longer and not has_keys and other.condition == way.condition


class _Arguments:
    """The rules for the arguments of one tool, and for everything after them."""

    def __init__(self, calls: KeywordRules, ends: StringEnds, schema: Schema):
        self._calls, self._hole, self._builder = calls, calls.hole, calls.builder
        self._ends, self._schema = ends, schema

    def write(self) -> Expression:
        """Returns the arguments of any of the tool's objects.

        Raises:
            SchemaError: none of them can be written.
        """
        written = map(self._object, self._schema.objects)
        options = [option for option in written if option is not None]
        if not options:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        return choice(options)

    def _object(self, node: Object) -> Expression | None:
        """Returns the arguments of an object; None if too few of its keys can be written."""
        ordered = sort_properties(node, self._hole)
        properties = [declared for declared in ordered if self._can_write(declared)]
        extras = self._find_extras(node)
        order = order_members(self._hole, self._calls.values.order, extra=bool(extras))
        members = arrange(properties, node.presence, extra=bool(extras), order=order)
        if isinstance(members, Unordered) and not members.is_possible:
            return None
        if isinstance(members, Unordered) and members.may_continue(members.start):
            return self._write_unordered(extras, properties, members)
        if isinstance(members, Unordered) or not (properties or extras):
            return self._calls.finish(self._hole.empty)
        return self._write_ordered(extras, properties)

    def _write_ordered(self, extras: Sequence[Extra], properties: Sequence[Property]) -> Expression:
        """Returns the arguments in schema order."""
        finish = self._calls.ways_to_finish(self._hole.last)
        ways = self._write_extras(extras, finish) if extras else []
        can_finish = True
        for declared in reversed(properties):
            following = ways + finish if can_finish else ways
            value = self._write_value(self._read(declared.node), following)
            way = ChainContinuation(self._hole.item + declared.key + self._hole.after_key, value)
            if declared.required:
                ways, can_finish = [way], False
            else:
                ways = [way, *ways]
        options = [self._begin(way) for way in self._find_starts(ways)]
        if can_finish:
            options.append(self._calls.finish(self._hole.empty))
        return choice(options)

    def _write_extras(
        self, extras: Sequence[Extra], finish: list[ChainContinuation]
    ) -> list[ChainContinuation]:
        """Returns an expression for any number of undeclared arguments, after the declared ones."""
        names = [self._builder.reserve("extra") for _ in extras]
        ways: list[ChainContinuation] = []
        for name, extra in zip(names, extras, strict=True):
            ways.append(ChainContinuation(self._hole.item, RuleReference(name), extra.keys))
        for name, extra in zip(names, extras, strict=True):
            self._builder.fill(name, self._write_value(self._read(extra.node), [*ways, *finish]))
        return ways

    def _write_unordered(
        self, extras: Sequence[Extra], properties: Sequence[Property], members: Unordered
    ) -> Expression:
        """Arguments in any order. The parameter of the rules holds which arguments are written
        already."""
        hints: dict[Value, str] = {}

        def find_hint(node: Node) -> str:
            return hints.setdefault(self._read(node), f"value{len(hints)}")

        ways: list[ChainContinuation] = []
        for i, declared in enumerate(properties):
            value = RuleReference(find_hint(declared.node), members.after(i))
            text = self._hole.item + declared.key + self._hole.after_key
            ways.append(ChainContinuation(text, value, condition=members.can_add[i]))
        for extra in extras:
            hint = find_hint(extra.node)
            for condition, argument in members.ways_to_add_extra:
                value = RuleReference(hint, argument)
                way = ChainContinuation(self._hole.item, value, extra.keys, condition=condition)
                ways.append(way)
        begin = [(self._begin(way), way.condition) for way in self._find_starts(ways)]
        begin.append((self._calls.finish(self._hole.empty), members.can_end))
        follow = [(self._begin(way), way.condition) for way in ways]
        follow.append((self._calls.finish(self._hole.last), members.can_end))
        bodies = {"start": guarded(begin), "follow": guarded(follow)}
        for way in self._calls.ways_to_finish(self._hole.last):
            ways.append(replace(way, condition=members.can_end))
        for value, hint in hints.items():
            bodies.update(self._write_parametric(value, hint, ways))
        names = self._builder.family(bodies, needed=members.required_bits, least=members.least)
        return self._builder.enter(RuleReference(names["start"], ZERO))

    def _write_parametric(
        self, value: Value, hint: str, ways: Sequence[ChainContinuation]
    ) -> Mapping[str, Expression]:
        """Returns the rules of a family for a value and the text after it."""
        options: list[Expression] = []
        bodies: dict[str, Expression] = {}
        if value.whole is not None:
            options.append(sequence(value.whole, RuleReference("follow", KEEP)))
        if value.raw is not None:
            options.append(sequence(Literal(self._hole.quote), RuleReference(f"raw_{hint}", KEEP)))
            ends = _merge_ends(ways, self._builder)
            ended = [(sequence(self._end(value.raw, w), w.rest), w.condition) for w in ends]
            bodies[f"raw_{hint}"] = guarded(ended)
        return {hint: choice(options), **bodies}

    def _find_starts(self, ways: Sequence[ChainContinuation]) -> list[ChainContinuation]:
        """Returns the ways to write the first argument, which has a different text before it."""
        item, first = self._hole.item, self._hole.first
        return [replace(way, text=first + way.text.removeprefix(item)) for way in ways]

    def _can_write(self, declared: Property) -> bool:
        """Returns whether the argument can be written.

        Raises:
            SchemaError: it is required, but cannot be written.
        """
        pointer = f"/properties/{escape(declared.key)}"
        if not is_key(declared.key, self._hole):
            hint = "Rename it, or use a model with a JSON format"
            message = f"the key {declared.key!r} cannot be written in such a call"
            raise SchemaError(message, where=pointer, hint=hint)
        if self._read(declared.node).is_writable:
            return True
        if declared.required:
            raise SchemaError("none of its values can be written in such a call", where=pointer)
        return False

    def _find_extras(self, node: Object) -> list[Extra]:
        """Returns the undeclared arguments that can be written."""
        declared = [p.key for p in node.properties]
        found: list[Extra] = []
        for extra in node.extras:
            keys = find_extra_keys(declared, extra.keys, self._hole)
            if not keys.is_empty() and self._read(extra.node).is_writable:
                found.append(replace(extra, keys=keys))
        return found

    def _read(self, node: Node) -> Value:
        """Finds the ways to write a value."""
        definitions = self._schema.definitions
        kinds = sort_kinds(node, definitions)
        options: list[Expression | None] = []
        for other in kinds.others:
            options.append(self._calls.values.value(other, definitions))
        for string in kinds.strings:
            options.append(self._calls.escaped.string(string))
        for word in kinds.words:
            options.append(self._calls.escaped.scalar(word))
        quote, raw = self._hole.quote, None
        if quote:
            words = [word for word in kinds.words if self._ends.holds(word, quote)]
            if kinds.strings:
                raw = self._raw(kinds.strings, words)
            else:
                options += [Literal(quote + word + quote) for word in words]
        written = [option for option in options if option is not None]
        whole = self._builder.define(choice(written), "plain") if written else None
        return Value(whole=whole, raw=raw)

    def _raw(self, nodes: Sequence[String], words: Sequence[str]) -> Expression:
        """Returns a terminal for raw strings."""
        texts = [write_text(node) for node in nodes]
        if words:
            texts.append(Pattern(match_any(words)))
        named = [self._builder.terminal(text, "TEXT") for text in dict.fromkeys(texts)]
        return self._builder.terminal(intersection(choice(named), self._endless), "RAW")

    @cached_property
    def _endless(self) -> Expression:
        """Texts that do not contain the end of a string. One shared rule, since it lists the keys
        of all tools."""
        return exclude_beginning(f"(?s:.*){self._ends.write_regex(self._hole.quote)}")

    def _write_value(self, value: Value, ways: Sequence[ChainContinuation]) -> Expression:
        """Returns a rule for a value and everything after it."""
        options: list[Expression] = []
        if value.whole is not None:
            follow = self._builder.define(self._follow(ways), "follow")
            options.append(sequence(value.whole, follow))
        if value.raw is not None:
            ends = _merge_ends(ways, self._builder)
            ended = [sequence(self._end(value.raw, way), way.rest) for way in ends]
            options.append(sequence(Literal(self._hole.quote), choice(ended)))
        return self._builder.define(choice(options), "value")

    def _follow(self, ways: Sequence[ChainContinuation]) -> Expression:
        """Returns the continuations after a value that shows its own end."""
        options = [self._begin(way) for way in ways]
        last = self._hole.last
        finish = [self._begin(way) for way in self._calls.ways_to_finish(last)]
        if options[-len(finish) :] == finish:  # a shared rule, since it may be long
            options[-len(finish) :] = [self._calls.finish(last)]
        return choice(options)

    def _begin(self, way: ChainContinuation) -> Expression:
        if way.keys is None:
            return sequence(self._builder.fixed(way.text), way.rest)
        return sequence(self._key(way.text, way.keys), way.rest)

    def _key(self, before: str, keys: Texts) -> Expression:
        """Returns an expression for one of the keys, with the text before it and after it, as one
        terminal."""
        return self._builder.terminal(match_texts(keys.wrap(before, self._hole.after_key)), "EXTRA")

    def _end(self, raw: Expression, way: ChainContinuation) -> Expression:
        """Returns an expression for a raw string and the text that ends it: a special token, or a
        lazy terminal."""
        if way.keys is None:
            return self._builder.end_raw(raw, self._hole.quote + way.text)
        key = self._key(self._hole.quote + way.text, way.keys)
        return self._builder.lazy(sequence(raw, key), "text")
