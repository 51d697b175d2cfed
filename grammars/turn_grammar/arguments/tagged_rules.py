"""Arguments between tags: their grammar, and what can stand between tags.

Such a format escapes nothing. So a raw value ends only where its closing tag is followed by the
next opening tag or by the end of the arguments (a composite terminator).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from grammars.errors import SchemaError
from grammars.regex.texts import SPACES, Texts, match_words
from grammars.regex.writing import escape_regex
from grammars.schema.bits import KEEP, NEVER, Condition, conjoin, negate
from grammars.schema.json_values import Json
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Extra,
    Flat,
    Node,
    Null,
    Number,
    Object,
    Property,
    Schema,
    String,
    escape,
    flatten,
)
from grammars.schema.text_members import find_texts
from grammars.spelling.styles import spell, spell_number
from grammars.spelling.types import (
    list_types,
    name_types,
    order_members,
    sort_properties,
    split_types,
)
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.values import (
    UNWRITABLE_KEYS,
    UNWRITABLE_KEYS_HINT,
    Values,
    admits_empty_text,
    choose_word,
    match_scalar,
    match_texts,
    refuse_key,
)
from grammars.wire.format import MAX_NAME_LENGTH, count_common, is_taggable
from grammars.wire.nodes import TaggedArguments

_CONTAINER = r"[\[{]"
"""A regular expression for the beginning of an object or list."""


def is_key(key: str, tags: TaggedArguments) -> bool:
    """Returns whether these tags can have this key."""
    is_end = bool(tags.rest_of_end) and key.startswith(tags.rest_of_end[0])
    return is_taggable(key) and not is_end and not any(c in key for c in _find_stops(tags))


def _find_stops(tags: TaggedArguments) -> str:
    return tags.after_key[:1].strip("\n")


def is_writable(value: Json, tags: TaggedArguments) -> bool:
    """Returns whether a constant can stand between these tags: without their end, or a wrapper's
    start."""
    if not isinstance(value, str):
        return True
    if not tags.close:
        return all((value + tag).find(tag) == len(value) for tag in (tags.open, tags.end))
    ends = tags.close + tags.open[0]
    looks_wrapped = tags.wrapper is not None and value.startswith(tags.wrapper.opener)
    return not looks_wrapped and ends not in "\n" + value + tags.close


def is_wrappable(value: Json, tags: TaggedArguments) -> bool:
    """Returns whether a constant can stand between these tags in their wrapper, without their
    end."""
    if tags.wrapper is None or not isinstance(value, str):
        return False
    close = tags.wrapper.closer + tags.close
    return close + tags.open[0] not in value + close


def excludes_containers(branches: Sequence[Flat]) -> bool:
    """Returns whether texts of these nodes must not begin like an object or list, which the lexer
    would take for that text, and then limit its length to that of the text."""
    return not _admit_any_text(branches) and any(isinstance(b, Object | Array) for b in branches)


def _admit_any_text(branches: Sequence[Flat]) -> bool:
    return any(isinstance(b, AnyValue) or (isinstance(b, String) and b.is_free) for b in branches)


def spell_words(value: Json, tags: TaggedArguments) -> tuple[str, ...]:
    """Returns all spellings of a constant between these tags, the template's own first."""
    match value:
        case str():
            return (value,)
        case True:
            return tags.true
        case False:
            return tags.false
        case None:
            return tags.null
        case int() | float():
            return spell_number(value)
        case _:
            return (spell(value, tags.style),)


@dataclass(frozen=True)
class Follow:
    """What may follow a value: another argument, without its opening tag, the end, or both."""

    more: ir.Expression | None
    end: bool


@dataclass(frozen=True)
class ArgumentValue:
    """The value of an argument. If `beside_text`, it may be text in another object that the schema
    allows, and the lexer cannot know yet which object the model writes."""

    tags: TaggedArguments
    node: Node
    beside_text: bool

    @property
    def is_shared(self) -> bool:
        """True if the node is hashable and does not depend on definitions."""
        return isinstance(self.node, String | Boolean | Null)


KnownValues: TypeAlias = dict[tuple[ArgumentValue, Follow], ir.Expression]
"""The rules of values that are the same in all tools: most arguments are plain text."""


class TaggedRules:
    """Adds the rules of a tool's arguments to a grammar. `known` is kept for all tools."""

    def __init__(self, tags: TaggedArguments, values: Values, schema: Schema, known: KnownValues):
        self._tags = tags
        self._values, self._builder = values, values.builder
        self._schema = schema
        self._known = known
        self._texts = find_texts(schema.objects, schema.definitions)

    def arguments(self) -> ir.Expression:
        """Returns all arguments, from the first tag to the end tag. SchemaError: none can be
        written."""
        tags = self._tags
        options: list[ir.Expression] = []
        for branch in self._schema.objects:
            start = self._find_start(branch)
            if start.more is not None:
                options.append(ir.sequence(self._builder.fixed(tags.open), start.more))
            if start.end:
                options.append(self._builder.fixed(tags.without_arguments))
        if not options:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        return self._builder.define(ir.choice(options), "arguments")

    def _find_start(self, node: Object) -> Follow:
        """Returns what may come first; nothing if too few of its keys can be written."""
        properties = tuple([p for p in sort_properties(node, self._tags) if self._can_write(p)])
        extras = self._find_extras(node)
        order = order_members(self._tags, self._values.order, extra=bool(extras))
        members = arrange(properties, node.presence, extra=bool(extras), order=order)
        if not isinstance(members, Unordered):
            return self._write_ordered(properties, extras)
        if not members.is_possible:
            return Follow(None, False)
        if not members.may_continue(members.start):
            return Follow(None, True)
        more = self._write_unordered(properties, extras, members)
        return Follow(more, members.may_end(members.start))

    def _can_write(self, declared: Property) -> bool:
        """Returns whether the argument can be written; SchemaError: it is required, but cannot."""
        if self._rules_of(self._tags.of(declared.key)).has_value(declared.node):
            return True
        if declared.required:
            pointer = f"/properties/{escape(declared.key)}"
            raise SchemaError("none of its values can be written between tags", where=pointer)
        return False

    def _find_extras(self, node: Object) -> tuple[Extra, ...]:
        """Returns the undeclared arguments that can be written."""
        if self._tags.close_key is not None:
            return ()
        any_key = rf"[^<>{SPACES}\x00-\x20{_find_stops(self._tags)}]{{1,{MAX_NAME_LENGTH}}}"
        fitting = Texts((any_key,), match_words([p.key for p in node.properties]))
        found: list[Extra] = []
        for extra in node.extras:
            keys = fitting.intersect(extra.keys)
            if not keys.is_empty() and self._rules_of(self._tags).has_value(extra.node):
                found.append(replace(extra, keys=keys))
        return tuple(found)

    def _rules_of(self, tags: TaggedArguments) -> "_ValueRules":
        return _ValueRules(tags, self._values, self._schema.definitions)

    def _write_unordered(
        self, properties: Sequence[Property], extras: Sequence[Extra], members: Unordered
    ) -> ir.Expression:
        """Returns one more argument. The parameter of the rules holds which are written."""
        hints: dict[ir.Expression, str] = {}  # rule names of values, by their bodies

        def find_hint(member: Property | Extra) -> str:
            body = self._write_parametric(member, members)
            return hints.setdefault(body, f"value{len(hints)}")

        options: list[tuple[ir.Expression, Condition]] = []
        for i, declared in enumerate(properties):
            value = ir.RuleReference(find_hint(declared), members.after(i))
            options.append((ir.sequence(self._key(declared), value), members.can_add[i]))
        for extra in extras:
            key, hint = self._key(extra), find_hint(extra)
            for condition, argument in members.ways_to_add_extra:
                options.append((ir.sequence(key, ir.RuleReference(hint, argument)), condition))
        bodies = {"more": ir.guarded(options)}
        for body, hint in hints.items():
            bodies[hint] = body
        names = self._builder.family(bodies, needed=members.required_bits, least=members.least)
        return self._builder.enter(ir.RuleReference(names["more"], ir.ZERO))

    def _write_parametric(self, member: Property | Extra, members: Unordered) -> ir.Expression:
        """Returns a value and the text after it, for each condition on what may follow."""
        more = ir.RuleReference("more", KEEP)
        follows = (
            (Follow(more, True), conjoin([members.can_end, members.can_continue])),
            (Follow(more, False), negate(members.can_end)),
            (Follow(None, True), negate(members.can_continue)),
        )
        options: list[tuple[ir.Expression, Condition]] = []
        for follow, condition in follows:
            if condition != NEVER:
                options.append((self._write_value(member, follow), condition))
        return ir.guarded(options)

    def _write_ordered(self, properties: Sequence[Property], extras: Sequence[Extra]) -> Follow:
        after = self._write_extras(extras) if extras else Follow(None, True)
        for declared in reversed(properties):
            pair = ir.sequence(self._key(declared), self._write_value(declared, after))
            options = [self._builder.define(pair, "argument")]
            if after.more is not None and not declared.required:
                options.append(after.more)
            more = self._builder.define(ir.choice(options), "more")
            after = Follow(more, after.end and not declared.required)
        return after

    def _write_extras(self, extras: Sequence[Extra]) -> Follow:
        """Returns an expression for any number of undeclared arguments, after the declared ones."""
        name = self._builder.reserve("extra")
        follow = Follow(ir.RuleReference(name), True)
        pairs = [
            ir.sequence(self._key(extra), self._write_value(extra, follow)) for extra in extras
        ]
        self._builder.fill(name, ir.choice(pairs))
        return follow

    def _write_value(self, member: Property | Extra, follow: Follow) -> ir.Expression:
        """Returns the value of an argument. An undeclared argument has the tags for any key."""
        tags = self._tags.of(member.key) if isinstance(member, Property) else self._tags
        value = ArgumentValue(tags, member.node, self._texts.has(member))
        if not value.is_shared:
            return self._rules_of(tags).write(value, follow)
        written = self._known.get((value, follow))
        if written is None:
            written = self._known[value, follow] = self._rules_of(tags).write(value, follow)
        return written

    def _key(self, member: Property | Extra) -> ir.Expression:
        if isinstance(member, Extra):
            return self._builder.terminal(match_texts(member.keys), "EXTRA")
        if not is_key(member.key, self._tags):
            raise refuse_key(member.key, "between tags")
        return ir.Literal(member.key)


class _ValueRules:
    """Adds the rules of values between tags to a grammar."""

    def __init__(self, tags: TaggedArguments, values: Values, definitions: Mapping[str, Node]):
        self._tags = tags
        self._values, self._builder = values, values.builder
        self._definitions = definitions

    def has_value(self, node: Node) -> bool:
        branches = list(flatten(node, self._definitions))
        return bool(self._find_writable(branches) or self._find_wrappable(branches))

    def _find_writable(self, nodes: Iterable[Flat]) -> list[Flat]:
        """Returns the nodes, without the constants that cannot be written as raw text."""
        return _keep_constants(nodes, lambda value: is_writable(value, self._tags))

    def _find_wrappable(self, nodes: Iterable[Flat]) -> list[Flat]:
        """Returns the nodes whose strings can be written in a wrapper, without other constants."""
        if self._tags.wrapper is None:
            return []
        texts = [node for node in nodes if isinstance(node, String | AnyValue | Constant)]
        return _keep_constants(texts, lambda value: is_wrappable(value, self._tags))

    def write(self, value: ArgumentValue, follow: Follow) -> ir.Expression:
        """Returns everything after a key: the type (if the tags have it), the value, and what
        follows it."""
        tags = self._tags
        options: list[ir.Expression] = []
        for kind, branches in self._group_by_kind(flatten(value.node, self._definitions)).items():
            after = tags.after_key
            if tags.kinds:
                after += kind + tags.after_kind
            values: list[ir.Expression] = []
            if nodes := self._find_writable(branches):
                values.append(self._write_plain(nodes, follow, beside_text=value.beside_text))
            if nodes := self._find_wrappable(branches):
                values.append(self._write_wrapped(nodes, follow))
            if values:
                options.append(ir.sequence(self._builder.fixed(after), ir.choice(values)))
        return ir.choice(options)

    def _group_by_kind(self, nodes: Iterable[Flat]) -> Mapping[str, Sequence[Flat]]:
        """Groups nodes by the type that the format writes for them, if it does."""
        if not self._tags.kinds:
            return {"": list(nodes)}
        groups: dict[str, list[Flat]] = {}
        for node in split_types(nodes):
            groups.setdefault(self._tags.find_kind(_name_node_types(node)), []).append(node)
        return groups

    def _write_plain(
        self, nodes: Sequence[Flat], follow: Follow, *, beside_text: bool
    ) -> ir.Expression:
        """Returns a value without a wrapper, and what follows it; `beside_text` as in
        `ArgumentValue`."""
        close = self._tags.close
        if _admit_any_text(nodes):
            raw = self._exclude_wrapper(ir.ANY_TEXT)
            return self._write_text([raw], follow, close, can_be_empty=True)
        has_text = beside_text or any(isinstance(node, String) for node in nodes)
        excludes = excludes_containers(nodes)
        texts: list[ir.Expression] = []
        can_be_empty = False
        options: list[ir.Expression] = []
        for node in nodes:
            text = self._match_text(node) if has_text else None
            if text is None:
                options.append(ir.sequence(self._spell(node), self._close(follow)))
                continue
            if excludes and isinstance(node, String):
                text = ir.intersection(text, ir.exclude_beginning(_CONTAINER))
            texts.append(self._exclude_wrapper(text))
            can_be_empty = can_be_empty or admits_empty_text(node)
        if texts:
            options.append(self._write_text(texts, follow, close, can_be_empty=can_be_empty))
        return ir.choice(options)

    def _exclude_wrapper(self, text: ir.Expression) -> ir.Expression:
        """Returns the texts that do not begin like the wrapper, which the lexer would take for
        text."""
        wrapper = self._tags.wrapper
        if wrapper is None:
            return text
        return ir.intersection(text, ir.exclude_beginning(escape_regex(wrapper.opener)))

    def _write_wrapped(self, nodes: Sequence[Flat], follow: Follow) -> ir.Expression:
        wrapper = self._tags.wrapper
        assert wrapper is not None
        texts = [self._match_text(node) or ir.ANY_TEXT for node in nodes]
        can_be_empty = any(map(admits_empty_text, nodes))
        close = wrapper.closer + self._tags.close
        text = self._write_text(texts, follow, close, can_be_empty=can_be_empty)
        return ir.sequence(self._builder.fixed(wrapper.opener), text)

    def _match_text(self, node: Flat) -> ir.Expression | None:
        """Returns the texts of a node, for a terminal; None if they are not regular. If one branch
        is text, all branches must be: the lexer continues a lexeme as long as it can, and would not
        end it for another branch."""
        return match_scalar(node, self._values, lambda value: spell_words(value, self._tags))

    def _spell(self, node: Flat) -> ir.Expression:
        """Returns a value other than text: JSON, with the template's own words."""
        tags = self._tags
        match node:
            case Boolean():
                return self._builder.define(choose_word(tags.true + tags.false), "boolean")
            case Null():
                return self._builder.define(choose_word(tags.null), "null")
            case Constant(values):
                options: list[ir.Expression] = []
                for value in values:
                    if isinstance(value, list | dict):
                        options.append(self._values.value(Constant((cast(Json, value),)), {}))
                    else:
                        options.append(choose_word(spell_words(value, self._tags)))
                return self._builder.define(ir.choice(options), "enum")
            case _:
                return self._values.value(node, self._definitions)

    def _close(self, follow: Follow) -> ir.Expression:
        """Returns the closing tag after a value that shows its own end, and what follows it."""
        options: list[ir.Expression] = []
        for following, more in self._list_following(follow):
            options.append(ir.sequence(self._builder.fixed(self._tags.close + following), more))
        body = ir.choice(options)
        if isinstance(follow.more, ir.RuleReference) and follow.more.argument is not None:
            return body  # a separate rule would not have the parameter
        return self._builder.define(body, "close")

    def _write_text(
        self, texts: Sequence[ir.Expression], follow: Follow, close: str, *, can_be_empty: bool
    ) -> ir.Expression:
        """Returns an expression for raw text and its terminator, which begins with `close`. Two
        lexemes for the two terminators, since different rules follow them."""
        builder = self._builder
        terminated = ir.exclude_beginning(self._match_terminator(follow, close))
        raw = builder.terminal(ir.intersection(ir.choice(texts), terminated), "RAW")
        options: list[ir.Expression] = []
        for following, more in self._list_following(follow):
            terminator = close + following
            if builder.begins_with_token(terminator):
                some = builder.up_to_token(raw, empty=can_be_empty)
                ended = builder.define(ir.sequence(some, builder.fixed(terminator)), "text")
            else:
                ended = builder.end_raw(raw, terminator)
            options.append(ir.sequence(ended, more))
        return ir.choice(options)

    def _list_following(self, follow: Follow) -> list[tuple[str, ir.Expression]]:
        """Returns the texts that may follow a closing tag, each with the rule after it.

        If the end tag begins like an argument, the two are told apart only after their common
        beginning: the lexer would always take the shorter text.
        """
        tags = self._tags
        if tags.rest_of_end and not self._builder.begins_with_token(tags.end):
            options = [] if follow.more is None else [follow.more]
            if follow.end:
                options.append(self._builder.fixed(tags.rest_of_end))
            return [(tags.open, ir.choice(options))]
        following: list[tuple[str, ir.Expression]] = []
        if follow.more is not None:
            following.append((tags.open, follow.more))
        if follow.end:
            following.append((tags.end, ir.EMPTY))
        return following

    def _match_terminator(self, follow: Follow, close: str) -> str:
        """Returns a regular expression for texts up to the terminator of a raw value.

        If only one of argument and end may follow here, the text may not contain the other's tag
        either, up to the character that tells them apart.
        """
        tags = self._tags
        apart = count_common(tags.open, tags.end) + 1
        opening = tags.open if follow.more is not None else tags.open[:apart]
        end = tags.end if follow.end else tags.end[:apart]
        stop = f"{escape_regex(opening)}|{escape_regex(end)}"
        line, tag = escape_regex(close[:1]), escape_regex(close[1:])
        before = f"(?s:.*){line}"
        if close[:1] == "\n":
            # The newline before a value counts, too: `>\n</parameter>` closes an empty value, so
            # no value begins with `</parameter>`.
            before = f"({before})?"
        return f"{before}{tag}({stop})"


def _name_node_types(node: Flat) -> tuple[str, ...]:
    """Returns the types of the values of a node of one type, the narrowest first."""
    match node:
        case Constant(values):
            return name_types(values[0])
        case Number(integer):
            return ("integer", "number") if integer else ("number",)
        case _:
            return list_types(node)


def _keep_constants(nodes: Iterable[Flat], fits: Callable[[Json], bool]) -> list[Flat]:
    kept: list[Flat] = []
    for node in nodes:
        if not isinstance(node, Constant):
            kept.append(node)
        elif values := tuple([value for value in node.values if fits(value)]):
            kept.append(Constant(values))
    return kept
