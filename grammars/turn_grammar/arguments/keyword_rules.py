"""Arguments by keyword: their grammar, and where raw strings among them end.

A raw string escapes nothing, not even its quote. So a quote ends it only before a text that can
follow: the key of another argument, another call, or the closer of all calls. The lexer must see
this text to know the end of the string, so it is part of the terminal of the string, and the rule
continues after it. Therefore the calls of a turn are one chain of rules.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from grammars.errors import SchemaError
from grammars.regex.texts import ANY, Texts, match_words
from grammars.regex.writing import escape_regex, match_any
from grammars.schema.bits import ALWAYS, KEEP, Condition
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import (
    AnyValue,
    Constant,
    Extra,
    Node,
    Object,
    Property,
    Schema,
    String,
    escape,
    flatten,
)
from grammars.spelling.names import BLANK, WORD, is_word
from grammars.spelling.types import ONE_TYPE, order_members, sort_properties
from grammars.turn import Tool
from grammars.turn_grammar.arguments.kind import CallChain, CallsSpec
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import (
    UNWRITABLE_KEYS,
    UNWRITABLE_KEYS_HINT,
    make_strings,
    match_texts,
    refuse_key,
    write_text,
)
from grammars.wire.format import Format, spell_fixed
from grammars.wire.nodes import CallId, CallIndex, KeywordArguments, Literal, Marker, Name
from grammars.wire.nodes import Node as FormatNode


def is_key(key: str, hole: KeywordArguments) -> bool:
    """Returns whether an argument may have this key, without the text that ends keys."""
    return is_word(key) and (key + hole.after_key).find(hole.after_key) == len(key)


@dataclass(frozen=True)
class EnclosingTexts:
    """The texts between name and arguments, after the arguments of every call, even if there are
    none, from there to the next name, and after the last call."""

    opener: str
    closer: str
    between: str
    closing: str


def find_enclosing_texts(format: Format) -> EnclosingTexts:
    nodes = format.call
    name = nodes.index(Name())
    hole = nodes.index(format.hole)
    return EnclosingTexts(
        opener=spell_fixed(nodes[name + 1 : hole]),
        closer=spell_fixed(nodes[hole + 1 :]),
        between=format.between + spell_fixed(nodes[:name]),
        closing=spell_fixed(format.closing),
    )


@dataclass(frozen=True)
class StringEnds:
    """The texts that can follow a string. Between the two texts of a pair of `words`, any key or
    name may stand."""

    texts: tuple[str, ...]
    closer: str
    words: tuple[tuple[str, str], ...] = ()

    def write_regex(self, quote: str) -> str:
        """Returns a regular expression for a quote and a text that can follow it."""
        options = [*map(escape_regex, self.texts)]
        options += [escape_regex(a) + WORD + escape_regex(b) for a, b in self.words]
        return f"{escape_regex(quote)}({'|'.join(options)})"

    @cached_property
    def _begun(self) -> re.Pattern[str]:
        """A pattern for proper beginnings of a word with the texts around it."""
        return re.compile("|".join(_begin(*pair) for pair in self.words) or "(?!)")

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self.write_regex(""))

    def find(self, text: str, offset: int, quote: str) -> tuple[int, bool]:
        """Finds the end of a string: up to which offset the text belongs to it, and whether it ends
        there; if not, the rest is undecided until more text arrives."""
        while (offset := text.find(quote, offset)) >= 0:
            following = offset + len(quote)
            if self._whole.match(text, following):
                return offset, True
            rest = text[following:]
            is_begun = any(other.startswith(rest) for other in self.texts)
            if is_begun or self._begun.fullmatch(rest):
                return offset, False
            offset += 1
        return len(text), False

    def holds(self, text: str, quote: str) -> bool:
        """Returns whether a string can contain this text."""
        return not self.find(text, 0, quote)[1]


def _begin(before: str, after: str) -> str:
    regex = ""
    for part in reversed([*map(re.escape, before), WORD, *map(re.escape, after[:-1])]):
        regex = f"(?:{part}{regex})?"
    return regex


def find_ends(
    format: Format, hole: KeywordArguments, names: Iterable[str], schema: Schema | None
) -> StringEnds:
    """Returns the texts that can follow a string. Without names, a call may have any name; without
    a schema (of an unknown tool), any key."""
    around = find_enclosing_texts(format)
    known = tuple(names)
    objects = schema.objects if schema else []
    keys = dict.fromkeys(p.key for node in objects for p in node.properties)
    following = [around.closer + around.closing]
    following += [around.closer + around.between + name + around.opener for name in known]
    texts = [hole.last + text for text in following]
    texts += [hole.item + key + hole.after_key for key in keys if is_key(key, hole)]
    words: list[tuple[str, str]] = []
    if schema is None or any(node.extras for node in objects):
        words.append((hole.item, hole.after_key))
    if not known:
        words.append((hole.last + around.closer + around.between, around.opener))
    return StringEnds(tuple(texts), around.closer, tuple(words))


@dataclass(frozen=True)
class ChainContinuation:
    """How a call may continue after a value: with a text that shows that it has ended, and one of
    the keys (if given); in a rule with a parameter, on a condition."""

    text: str
    rest: ir.Expression = ir.EMPTY
    keys: Texts | None = None
    condition: Condition = ALWAYS


@dataclass(frozen=True)
class Value:
    """How a value can be written: in forms that show their own end, as the text of raw strings."""

    whole: ir.Expression | None
    raw: ir.Expression | None

    @property
    def is_writable(self) -> bool:
        return self.whole is not None or self.raw is not None


class KeywordChain(CallChain):
    """Adds the rules of calls with keyword arguments. A raw string ends before a call of any name
    of the spec."""

    def __init__(self, hole: KeywordArguments, format: Format, spec: CallsSpec):
        self.hole, self._format, self._spec = hole, format, spec
        self.values, self.builder = spec.values, spec.values.builder
        self.escaped = make_strings(hole.escaped, self.builder)
        self._arguments: dict[str, ir.Expression] = {}

    def calls(
        self, first: Sequence[FormatNode], *, spaced: bool = False, lead: str = ""
    ) -> ir.Expression:
        options: list[ir.Expression] = []
        for tool in self._spec.tools:
            text, rest = self._open(first, tool.name)
            if not text.startswith(lead):
                continue
            text = text.removeprefix(lead)
            head = self.builder.fixed(text)
            if spaced:
                pattern = ir.Pattern(f"{BLANK}{{0,{self._format.max_space}}}{escape_regex(text)}")
                head = self.builder.terminal(pattern, "CALL")
            options.append(ir.sequence(head, rest, self._call(tool)))
        return self.builder.define(ir.choice(options), "calls") if options else ir.NOTHING

    def _open(self, nodes: Sequence[FormatNode], name: str) -> tuple[str, ir.Expression]:
        """Returns what stands before the arguments of a call: the text up to its id or number, and
        the rest from there on."""
        texts, words = [""], list[ir.Expression]()
        for node in nodes[: nodes.index(self.hole)]:
            match node:
                case Literal(text) | Marker(text):
                    texts[-1] += text
                case Name():
                    texts[-1] += name
                case CallId() | CallIndex():
                    words.append(self.builder.terminal(ir.Pattern(node.pattern), "ID"))
                    texts.append("")
                case _:
                    raise TypeError("a call in Python has one hole for arguments")
        rest: list[ir.Expression] = []
        for word, text in zip(words, texts[1:], strict=True):
            rest += [word, self.builder.fixed(text)]
        return texts[0], ir.sequence(*rest)

    def _call(self, tool: Tool) -> ir.Expression:
        """Returns the arguments of a tool and everything after them."""
        if tool.name not in self._arguments:
            name = self.builder.reserve("arguments")
            self._arguments[tool.name] = ir.RuleReference(name)
            try:
                ends = find_ends(self._format, self.hole, self._spec.names, tool.schema)
                body = _Arguments(self, ends, tool.schema).write()
            except SchemaError as e:
                message = f"tool {tool.name!r}: {e.message}"
                raise SchemaError(message, where=e.where, hint=e.hint) from e
            self.builder.fill(name, body)
        return self._arguments[tool.name]

    @property
    def ways_to_finish(self) -> list[ChainContinuation]:
        """The continuations after the last argument."""
        around = find_enclosing_texts(self._format)
        ways = [ChainContinuation(self.hole.last + around.closer + around.closing)]
        for tool in self._spec.tools if self._spec.several else ():
            text, rest = self._open(self._format.call, tool.name)
            text = self.hole.last + around.closer + self._format.between + text
            ways.append(ChainContinuation(text, ir.sequence(rest, self._call(tool))))
        return ways

    def finish(self, last: str) -> ir.Expression:
        """Returns a rule for everything after the arguments; `last` is the text at their end."""
        options: list[ir.Expression] = []
        for way in self.ways_to_finish:
            text = last + way.text.removeprefix(self.hole.last)
            options.append(ir.sequence(self.builder.fixed(text), way.rest))
        return self.builder.define(ir.choice(options), "finished")


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
        rests: list[ir.Expression] = []
        for other in longer:
            rests.append(ir.sequence(builder.fixed(other.text[len(way.text) :]), other.rest))
        if rests and way.rest == ir.EMPTY:
            way = replace(way, rest=ir.optional(ir.choice(rests)))
        elif rests:
            way = replace(way, rest=ir.choice([way.rest, *rests]))
        merged.append(way)
    return merged


def _is_prefix(way: ChainContinuation, other: ChainContinuation) -> bool:
    is_longer = len(other.text) > len(way.text) and other.text.startswith(way.text)
    has_keys = way.keys is not None or other.keys is not None
    return is_longer and not has_keys and other.condition == way.condition


class _Arguments:
    """The rules for the arguments of one tool, and for everything after them."""

    def __init__(self, calls: KeywordChain, ends: StringEnds, schema: Schema):
        self._calls, self._hole, self._builder = calls, calls.hole, calls.builder
        self._ends, self._schema = ends, schema

    def write(self) -> ir.Expression:
        """Returns the arguments of any of the tool's objects; SchemaError: none can be written."""
        written = map(self._object, self._schema.objects)
        options = [option for option in written if option is not None]
        if not options:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        return ir.choice(options)

    def _object(self, node: Object) -> ir.Expression | None:
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

    def _write_ordered(
        self, extras: Sequence[Extra], properties: Sequence[Property]
    ) -> ir.Expression:
        finish = self._calls.ways_to_finish
        ways = self._write_extras(extras, finish) if extras else []
        can_finish = True
        for declared in reversed(properties):
            following = ways + finish if can_finish else ways
            way = self._continue(declared, self._write_value(self._read(declared.node), following))
            if declared.required:
                ways, can_finish = [way], False
            else:
                ways = [way, *ways]
        options = [self._begin(way) for way in self._find_starts(ways)]
        if can_finish:
            options.append(self._calls.finish(self._hole.empty))
        return ir.choice(options)

    def _continue(
        self, member: Property | Extra, value: ir.Expression, condition: Condition = ALWAYS
    ) -> ChainContinuation:
        item = self._hole.item
        if isinstance(member, Extra):
            return ChainContinuation(item, value, member.keys, condition)
        text = item + member.key + self._hole.after_key
        return ChainContinuation(text, value, condition=condition)

    def _write_extras(
        self, extras: Sequence[Extra], finish: list[ChainContinuation]
    ) -> list[ChainContinuation]:
        """Returns an expression for any number of undeclared arguments, after the declared ones."""
        names = [self._builder.reserve("extra") for _ in extras]
        pairs = list(zip(names, extras, strict=True))
        ways = [self._continue(extra, ir.RuleReference(name)) for name, extra in pairs]
        for name, extra in pairs:
            self._builder.fill(name, self._write_value(self._read(extra.node), [*ways, *finish]))
        return ways

    def _write_unordered(
        self, extras: Sequence[Extra], properties: Sequence[Property], members: Unordered
    ) -> ir.Expression:
        """Arguments in any order. The parameter of the rules holds which are written already."""
        hints: dict[Value, str] = {}

        def find_hint(node: Node) -> str:
            return hints.setdefault(self._read(node), f"value{len(hints)}")

        ways: list[ChainContinuation] = []
        for i, declared in enumerate(properties):
            value = ir.RuleReference(find_hint(declared.node), members.after(i))
            ways.append(self._continue(declared, value, members.can_add[i]))
        for extra in extras:
            hint = find_hint(extra.node)
            for condition, argument in members.ways_to_add_extra:
                ways.append(self._continue(extra, ir.RuleReference(hint, argument), condition))
        begin = [(self._begin(way), way.condition) for way in self._find_starts(ways)]
        begin.append((self._calls.finish(self._hole.empty), members.can_end))
        follow = [(self._begin(way), way.condition) for way in ways]
        follow.append((self._calls.finish(self._hole.last), members.can_end))
        bodies = {"start": ir.guarded(begin), "follow": ir.guarded(follow)}
        for way in self._calls.ways_to_finish:
            ways.append(replace(way, condition=members.can_end))
        for value, hint in hints.items():
            bodies.update(self._write_parametric(value, hint, ways))
        names = self._builder.family(bodies, needed=members.required_bits, least=members.least)
        return self._builder.enter(ir.RuleReference(names["start"], ir.ZERO))

    def _write_parametric(
        self, value: Value, hint: str, ways: Sequence[ChainContinuation]
    ) -> Mapping[str, ir.Expression]:
        """Returns the rules of a family for a value and the text after it."""
        options: list[ir.Expression] = []
        bodies: dict[str, ir.Expression] = {}
        if value.whole is not None:
            options.append(ir.sequence(value.whole, ir.RuleReference("follow", KEEP)))
        if value.raw is not None:
            options.append(
                ir.sequence(ir.Literal(self._hole.quote), ir.RuleReference(f"raw_{hint}", KEEP))
            )
            ends = _merge_ends(ways, self._builder)
            ended = [(ir.sequence(self._end(value.raw, w), w.rest), w.condition) for w in ends]
            bodies[f"raw_{hint}"] = ir.guarded(ended)
        return {hint: ir.choice(options), **bodies}

    def _find_starts(self, ways: Sequence[ChainContinuation]) -> list[ChainContinuation]:
        """Returns the ways to write the first argument, which has a different text before it."""
        item, first = self._hole.item, self._hole.first
        return [replace(way, text=first + way.text.removeprefix(item)) for way in ways]

    def _can_write(self, declared: Property) -> bool:
        """Returns whether the argument can be written; SchemaError: it is required, but cannot."""
        if not is_key(declared.key, self._hole):
            raise refuse_key(declared.key, "in such a call")
        if self._read(declared.node).is_writable:
            return True
        if declared.required:
            where = f"/properties/{escape(declared.key)}"
            raise SchemaError("none of its values can be written in such a call", where=where)
        return False

    def _find_extras(self, node: Object) -> list[Extra]:
        """Returns the undeclared arguments that can be written."""
        after_key = self._hole.after_key
        without = match_words([p.key for p in node.properties])
        if is_word(after_key):
            without += (f"{ANY}{escape_regex(after_key)}{ANY}",)
        found: list[Extra] = []
        for extra in node.extras:
            keys = Texts((WORD,), without).intersect(extra.keys)
            if not keys.is_empty() and self._read(extra.node).is_writable:
                found.append(replace(extra, keys=keys))
        return found

    def _read(self, node: Node) -> Value:
        calls, definitions = self._calls, self._schema.definitions
        strings, words, options = list[String](), list[str](), list[ir.Expression | None]()
        for branch in flatten(node, definitions):
            for part in ONE_TYPE if isinstance(branch, AnyValue) else (branch,):
                match part:
                    case String():
                        strings.append(part)
                    case Constant(values):
                        words += [value for value in values if isinstance(value, str)]
                        others = tuple(value for value in values if not isinstance(value, str))
                        if others:
                            options.append(calls.values.value(Constant(others), definitions))
                    case _:
                        options.append(calls.values.value(part, definitions))
        words = list(dict.fromkeys(words))
        options += [calls.escaped.string(string) for string in strings]
        options += [calls.escaped.scalar(word) for word in words]
        quote, raw = self._hole.quote, None
        if quote:
            words = [word for word in words if self._ends.holds(word, quote)]
            if strings:
                raw = self._raw(strings, words)
            else:
                options += [ir.Literal(quote + word + quote) for word in words]
        written = [option for option in options if option is not None]
        whole = self._builder.define(ir.choice(written), "plain") if written else None
        return Value(whole=whole, raw=raw)

    def _raw(self, nodes: Sequence[String], words: Sequence[str]) -> ir.Expression:
        texts = [write_text(node) for node in nodes]
        if words:
            texts.append(ir.Pattern(match_any(words)))
        named = [self._builder.terminal(text, "TEXT") for text in dict.fromkeys(texts)]
        return self._builder.terminal(ir.intersection(ir.choice(named), self._endless), "RAW")

    @cached_property
    def _endless(self) -> ir.Expression:
        """Texts without the end of a string. One shared rule, since it lists the keys of all
        tools."""
        return ir.exclude_beginning(f"(?s:.*){self._ends.write_regex(self._hole.quote)}")

    def _write_value(self, value: Value, ways: Sequence[ChainContinuation]) -> ir.Expression:
        """Returns a rule for a value and everything after it."""
        options: list[ir.Expression] = []
        if value.whole is not None:
            follow = self._builder.define(self._follow(ways), "follow")
            options.append(ir.sequence(value.whole, follow))
        if value.raw is not None:
            ends = _merge_ends(ways, self._builder)
            ended = [ir.sequence(self._end(value.raw, way), way.rest) for way in ends]
            options.append(ir.sequence(ir.Literal(self._hole.quote), ir.choice(ended)))
        return self._builder.define(ir.choice(options), "value")

    def _follow(self, ways: Sequence[ChainContinuation]) -> ir.Expression:
        """Returns the continuations after a value that shows its own end."""
        options = [self._begin(way) for way in ways]
        finish = [self._begin(way) for way in self._calls.ways_to_finish]
        if options[-len(finish) :] == finish:  # a shared rule, since it may be long
            options[-len(finish) :] = [self._calls.finish(self._hole.last)]
        return ir.choice(options)

    def _begin(self, way: ChainContinuation) -> ir.Expression:
        if way.keys is None:
            return ir.sequence(self._builder.fixed(way.text), way.rest)
        return ir.sequence(self._key(way.text, way.keys), way.rest)

    def _key(self, before: str, keys: Texts) -> ir.Expression:
        """Returns one of the keys, with the text before it and after it, as one terminal."""
        return self._builder.terminal(match_texts(keys.wrap(before, self._hole.after_key)), "EXTRA")

    def _end(self, raw: ir.Expression, way: ChainContinuation) -> ir.Expression:
        """Returns a raw string and the text that ends it: a special token, or a lazy terminal."""
        if way.keys is None:
            return self._builder.end_raw(raw, self._hole.quote + way.text)
        key = self._key(self._hole.quote + way.text, way.keys)
        return self._builder.lazy(ir.sequence(raw, key), "text")
