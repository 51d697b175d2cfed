"""Grammar rules for tagged arguments: each argument between its own tags, strings as raw text,
other values as JSON.

Such a format escapes nothing. So a raw value ends only where its closing tag is followed by the
next opening tag or by the end of the arguments (a composite terminator).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from grammars.errors import SchemaError
from grammars.regex.writing import escape_regex, match_any
from grammars.schema.bits import KEEP, NEVER, Condition, conjoin, negate
from grammars.schema.json_values import Json
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import (
    AnyValue,
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
from grammars.schema.text_members import TextMembers, find_texts
from grammars.spelling.parts import order_members, sort_properties
from grammars.spelling.tagged import (
    CONTAINER,
    admits_any_text,
    excludes_containers,
    find_extra_keys,
    group_by_kind,
    is_key,
    is_wrappable,
    is_writable,
    spell_words,
)
from grammars.turn_grammar.ir.nodes import (
    ANY_TEXT,
    EMPTY,
    ZERO,
    Expression,
    Literal,
    Pattern,
    RuleReference,
    choice,
    exclude_beginning,
    guarded,
    intersection,
    sequence,
)
from grammars.turn_grammar.values import (
    UNWRITABLE_KEYS,
    UNWRITABLE_KEYS_HINT,
    Values,
    admits_empty_text,
    choose_word,
    match_texts,
    write_text,
)
from grammars.wire.format import TaggedArguments, count_common

Definitions: TypeAlias = Mapping[str, Node]


@dataclass(frozen=True)
class Follow:
    """What may follow a value.

    Args:
        more: the next argument, without its opening tag; None: there is none.
        end: the arguments may end.
    """

    more: Expression | None
    end: bool


class TaggedRules:
    """Adds the rules of tagged arguments to a grammar.

    Args:
        tags: how the format writes the arguments.
        values: writes JSON values into the grammar that is being built.
    """

    def __init__(self, tags: TaggedArguments, values: Values):
        self._tags = tags
        self._values = values
        self._builder = values.builder
        self._order = values.order
        self._texts = TextMembers()  # of the current tool
        # Rules of values that are the same in all tools, by their tags and by what may follow
        # them. Most arguments are plain text.
        self._known: dict[tuple[_ArgumentValue, Follow], Expression] = {}

    def arguments(self, schema: Schema) -> Expression:
        """Returns all arguments of a tool, from the first tag to the end tag.

        Raises:
            SchemaError: these tags cannot write a key, or none of the objects.
        """
        tags = self._tags
        empty = tags.end if tags.empty is None else tags.empty
        options: list[Expression] = []
        self._texts = find_texts(schema.objects, schema.definitions)
        for branch in schema.objects:
            start = self._find_start(branch, schema.definitions)
            if start.more is not None:
                options.append(sequence(self._builder.fixed(tags.open), start.more))
            if start.end:
                options.append(self._builder.fixed(empty))
        if not options:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        return self._builder.define(choice(options), "arguments")

    def _find_start(self, node: Object, definitions: Definitions) -> Follow:
        """Returns what may come first; nothing if too few of its keys can be written."""
        ordered = sort_properties(node, self._tags)
        properties = tuple([p for p in ordered if self._can_write(p, definitions)])
        extras = self._find_extras(node, definitions)
        order = order_members(self._tags, self._order, extra=bool(extras))
        members = arrange(properties, node.presence, extra=bool(extras), order=order)
        node = replace(node, properties=properties, additional=None, patterned=extras)
        if not isinstance(members, Unordered):
            return self._write_ordered(node, definitions)
        if not members.is_possible:
            return Follow(None, False)
        if not members.may_continue(members.start):
            return Follow(None, True)
        more = self._write_unordered(node, members, definitions)
        return Follow(more, members.may_end(members.start))

    def _can_write(self, declared: Property, definitions: Definitions) -> bool:
        """Returns whether the argument can be written.

        Raises:
            SchemaError: it is required, but cannot be written.
        """
        values = _TaggedValues(self._tags.of(declared.key), self._values)
        if values.has_value(declared.node, definitions):
            return True
        if declared.required:
            pointer = f"/properties/{escape(declared.key)}"
            raise SchemaError("none of its values can be written between tags", where=pointer)
        return False

    def _find_extras(self, node: Object, definitions: Definitions) -> tuple[Extra, ...]:
        """Returns the undeclared arguments that can be written."""
        if self._tags.close_key is not None:
            return ()
        declared = [p.key for p in node.properties]
        values = _TaggedValues(self._tags, self._values)
        found: list[Extra] = []
        for extra in node.extras:
            keys = find_extra_keys(self._tags, declared, extra.keys)
            if not keys.is_empty() and values.has_value(extra.node, definitions):
                found.append(replace(extra, keys=keys))
        return tuple(found)

    def _write_unordered(
        self, node: Object, members: Unordered, definitions: Definitions
    ) -> Expression:
        """Returns one more argument, of those that are not written yet. The parameter of the rules
        holds which are written."""
        hints: dict[Expression, str] = {}  # rule names of values, by their bodies
        known: dict[_ArgumentValue, str] = {}

        def find_hint(value: _ArgumentValue) -> str:
            if value.is_simple and value in known:
                return known[value]
            body = self._write_parametric(value, members, definitions)
            hint = hints.setdefault(body, f"value{len(hints)}")
            if value.is_simple:
                known[value] = hint
            return hint

        options: list[tuple[Expression, Condition]] = []
        for i, declared in enumerate(node.properties):
            value = RuleReference(find_hint(self._value_of(declared)), members.after(i))
            options.append((sequence(self._key(declared), value), members.can_add[i]))
        for extra in node.extras:
            key, hint = self._extra_key(extra), find_hint(self._value_of(extra))
            for condition, argument in members.ways_to_add_extra:
                options.append((sequence(key, RuleReference(hint, argument)), condition))
        bodies = {"more": guarded(options)}
        for body, hint in hints.items():
            bodies[hint] = body
        names = self._builder.family(bodies, needed=members.required_bits, least=members.least)
        return self._builder.enter(RuleReference(names["more"], ZERO))

    def _value_of(self, member: Property | Extra) -> "_ArgumentValue":
        """Returns the value of an argument. An undeclared argument has the tags for any key."""
        tags = self._tags.of(member.key) if isinstance(member, Property) else self._tags
        return _ArgumentValue(tags, member.node, self._texts.has(member))

    def _write_parametric(
        self, value: "_ArgumentValue", members: Unordered, definitions: Definitions
    ) -> Expression:
        """Returns a value and the text after it, for each condition on what may follow."""
        more = RuleReference("more", KEEP)
        follows = (
            (Follow(more, True), conjoin([members.can_end, members.can_continue])),
            (Follow(more, False), negate(members.can_end)),
            (Follow(None, True), negate(members.can_continue)),
        )
        options: list[tuple[Expression, Condition]] = []
        for follow, condition in follows:
            if condition != NEVER:
                options.append((self._write_value(value, definitions, follow), condition))
        return guarded(options)

    def _write_value(
        self, value: "_ArgumentValue", definitions: Definitions, follow: Follow
    ) -> Expression:
        if not value.is_simple:
            return self._write_new_value(value, definitions, follow)
        key = value, follow
        written = self._known.get(key)
        if written is None:
            written = self._known[key] = self._write_new_value(value, definitions, follow)
        return written

    def _write_new_value(
        self, value: "_ArgumentValue", definitions: Definitions, follow: Follow
    ) -> Expression:
        return _TaggedValues(value.tags, self._values).write(value, definitions, follow)

    def _write_ordered(self, node: Object, definitions: Definitions) -> Follow:
        """Returns the arguments in schema order."""
        after = self._write_extras(node, definitions) if node.extras else Follow(None, True)
        for declared in reversed(node.properties):
            value = self._write_new_value(self._value_of(declared), definitions, after)
            argument = self._builder.define(sequence(self._key(declared), value), "argument")
            options = [argument]
            if after.more is not None and not declared.required:
                options.append(after.more)
            more = self._builder.define(choice(options), "more")
            after = Follow(more, after.end and not declared.required)
        return after

    def _write_extras(self, node: Object, definitions: Definitions) -> Follow:
        """Returns an expression for any number of undeclared arguments, after the declared ones."""
        name = self._builder.reserve("extra")
        follow = Follow(RuleReference(name), True)
        options: list[Expression] = []
        for extra in node.extras:
            value = self._write_new_value(self._value_of(extra), definitions, follow)
            options.append(sequence(self._extra_key(extra), value))
        self._builder.fill(name, choice(options))
        return follow

    def _extra_key(self, extra: Extra) -> Expression:
        """Returns an undeclared key."""
        return self._builder.terminal(match_texts(extra.keys), "EXTRA")

    def _key(self, declared: Property) -> Expression:
        if not is_key(declared.key, self._tags):
            raise SchemaError(
                f"the key {declared.key!r} cannot be written between tags",
                where=f"/properties/{escape(declared.key)}",
                hint="Rename it, or use a model with a JSON format",
            )
        return Literal(declared.key)


class _TaggedValues:
    """Adds the rules of values between tags to a grammar."""

    def __init__(self, tags: TaggedArguments, values: Values):
        self._tags = tags
        self._values = values
        self._builder = values.builder

    def has_value(self, node: Node, definitions: Definitions) -> bool:
        """Returns whether one of the node's values can be written."""
        branches = list(flatten(node, definitions))
        return bool(self._find_writable(branches) or self._find_wrappable(branches))

    def write(
        self, value: "_ArgumentValue", definitions: Definitions, follow: Follow
    ) -> Expression:
        """Returns an expression for everything after a key: the type (if the tags have it), the
        value, and what follows the value."""
        tags = self._tags
        options: list[Expression] = []
        for kind, branches in group_by_kind(flatten(value.node, definitions), tags):
            after = tags.after_key
            if tags.kinds:
                after += kind + tags.after_kind
            values: list[Expression] = []
            if nodes := self._find_writable(branches):
                plain = self._write_value(nodes, definitions, follow, beside_text=value.beside_text)
                values.append(plain)
            if nodes := self._find_wrappable(branches):
                values.append(self._write_wrapped(nodes, follow))
            if values:
                options.append(sequence(self._builder.fixed(after), choice(values)))
        return choice(options)

    def _write_value(
        self,
        nodes: Sequence[Flat],
        definitions: Definitions,
        follow: Follow,
        *,
        beside_text: bool,
    ) -> Expression:
        """Returns a value without a wrapper, and what follows it.

        Args:
            nodes: the value matches one of these.
            definitions: the nodes that references name.
            follow: what may follow the value.
            beside_text: in another object that may stand here, the argument may be text.
        """
        tags = self._tags
        if admits_any_text(nodes):
            raw = self._exclude_wrapper(ANY_TEXT)
            return self._write_text([raw], follow, tags.close, can_be_empty=True)
        has_text = beside_text or any(isinstance(node, String) for node in nodes)
        excludes = excludes_containers(nodes)
        texts: list[Expression] = []
        can_be_empty = False
        options: list[Expression] = []
        for node in nodes:
            text = self._match_text(node) if has_text else None
            if text is None:
                value = self._spell(node, definitions)
                options.append(sequence(value, self._close(follow)))
                continue
            if excludes and isinstance(node, String):
                text = intersection(text, exclude_beginning(CONTAINER))
            texts.append(self._exclude_wrapper(text))
            can_be_empty = can_be_empty or admits_empty_text(node)
        if texts:
            text = self._write_text(texts, follow, tags.close, can_be_empty=can_be_empty)
            options.append(text)
        return choice(options)

    def _exclude_wrapper(self, text: Expression) -> Expression:
        """Returns the texts that do not begin with the opener of the wrapper, which the lexer would
        take for text."""
        wrapper = self._tags.wrapper
        if wrapper is None:
            return text
        return intersection(text, exclude_beginning(escape_regex(wrapper.opener)))

    def _write_wrapped(self, nodes: Sequence[Flat], follow: Follow) -> Expression:
        """Returns a string of one of these nodes in its wrapper, and what follows it."""
        tags = self._tags
        assert tags.wrapper is not None
        texts: list[Expression] = []
        for node in nodes:
            match node:
                case String():
                    texts.append(self._builder.terminal(write_text(node), "TEXT"))
                case Constant(values):
                    texts.append(Pattern(match_any([str(value) for value in values])))
                case _:
                    texts.append(ANY_TEXT)
        text = self._write_text(
            texts,
            follow,
            tags.wrapper.closer + tags.close,
            can_be_empty=any(map(admits_empty_text, nodes)),
        )
        return sequence(self._builder.fixed(tags.wrapper.opener), text)

    def _match_text(self, node: Flat) -> Expression | None:
        """Returns the texts of a node, for a terminal; None if they are not regular.

        If one branch is text, all branches must be text: the lexer continues a lexeme as long as it
        can, and would not end it for another branch.
        """
        tags = self._tags
        match node:
            case String():
                return self._builder.terminal(write_text(node), "TEXT")
            case Number() if "multipleOf" not in node.bounds:
                return self._values.value(node, {})
            case Boolean():
                return Pattern(match_any(tags.true + tags.false))
            case Null():
                return Pattern(match_any(tags.null))
            case Constant(values):
                words: list[str] = []
                for value in values:
                    words += self._spell_words(value)
                return Pattern(match_any(words))
            case _:
                return None

    def _spell(self, node: Flat, definitions: Definitions) -> Expression:
        """Returns a value other than text: JSON, with the template's own words for true, false and
        null."""
        tags = self._tags
        match node:
            case Boolean():
                return self._builder.define(choose_word(tags.true + tags.false), "boolean")
            case Null():
                return self._builder.define(choose_word(tags.null), "null")
            case Constant(values):
                return self._builder.define(choice(map(self._spell_constant, values)), "enum")
            case _:
                return self._values.value(node, definitions)

    def _spell_constant(self, value: Json) -> Expression:
        if isinstance(value, list | dict):
            return self._values.value(Constant((cast(Json, value),)), {})
        return choose_word(self._spell_words(value))

    def _spell_words(self, value: Json) -> tuple[str, ...]:
        return spell_words(value, self._tags, self._values.spell)

    def _find_writable(self, nodes: Iterable[Flat]) -> list[Flat]:
        """Returns the nodes, without the constants that cannot be written as raw text."""
        found: list[Flat] = []
        for node in nodes:
            if isinstance(node, Constant):
                values = tuple([value for value in node.values if is_writable(value, self._tags)])
                found += [Constant(values)] if values else []
            else:
                found.append(node)
        return found

    def _find_wrappable(self, nodes: Iterable[Flat]) -> list[Flat]:
        """Returns the nodes whose strings can be written in a wrapper, without other constants."""
        if self._tags.wrapper is None:
            return []
        found: list[Flat] = []
        for node in nodes:
            match node:
                case String() | AnyValue():
                    found.append(node)
                case Constant(values):
                    kept = tuple([value for value in values if is_wrappable(value, self._tags)])
                    found += [Constant(kept)] if kept else []
                case _:
                    pass
        return found

    def _close(self, follow: Follow) -> Expression:
        """Returns the closing tag after a value that shows its own end, and what follows it."""
        tags = self._tags
        options: list[Expression] = []
        for following, more in self._list_following(follow):
            options.append(sequence(self._builder.fixed(tags.close + following), more))
        body = choice(options)
        if isinstance(follow.more, RuleReference) and follow.more.argument is not None:
            return body  # a separate rule would not have the parameter
        return self._builder.define(body, "close")

    def _write_text(
        self, texts: Sequence[Expression], follow: Follow, close: str, *, can_be_empty: bool
    ) -> Expression:
        """Returns an expression for raw text and its terminator, which begins with `close`. Two
        lexemes for the two terminators, since different rules follow them."""
        terminated = exclude_beginning(self._match_terminator(follow, close))
        raw = self._builder.terminal(intersection(choice(texts), terminated), "RAW")
        options: list[Expression] = []
        for following, more in self._list_following(follow):
            ended = self._end_text(raw, close + following, can_be_empty=can_be_empty)
            options.append(sequence(ended, more))
        return choice(options)

    def _list_following(self, follow: Follow) -> list[tuple[str, Expression]]:
        """Returns the texts that may follow a closing tag, each with the rule after it.

        If the end tag begins like an argument, the two are told apart only after their common
        beginning: the lexer would always take the shorter text.
        """
        tags = self._tags
        if tags.rest_of_end and not self._builder.begins_with_token(tags.end):
            options = [] if follow.more is None else [follow.more]
            if follow.end:
                options.append(self._builder.fixed(tags.rest_of_end))
            return [(tags.open, choice(options))]
        following: list[tuple[str, Expression]] = []
        if follow.more is not None:
            following.append((tags.open, follow.more))
        if follow.end:
            following.append((tags.end, EMPTY))
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

    def _end_text(self, raw: Expression, terminator: str, *, can_be_empty: bool) -> Expression:
        """Returns a raw value and its terminator."""
        if self._builder.begins_with_token(terminator):
            some = self._builder.up_to_token(raw, empty=can_be_empty)
            return self._builder.define(sequence(some, self._builder.fixed(terminator)), "text")
        return self._builder.end_raw(raw, terminator)


@dataclass(frozen=True)
class _ArgumentValue:
    """The value of an argument.

    Args:
        tags: the tags around it.
        node: the value.
        beside_text: in another object that the schema allows, the argument may be text, and the
            lexer cannot know yet which object the model writes.
    """

    tags: TaggedArguments
    node: Node
    beside_text: bool

    @property
    def is_simple(self) -> bool:
        """True if the node is hashable and does not depend on definitions."""
        return isinstance(self.node, String | Boolean | Null)
