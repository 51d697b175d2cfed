"""Grammar rules for nested tags: each member and item has tags of its own, and text is raw.

Text and its closing tag are one lexeme, so that the lexer can tell a text from the first tag of an
object. The closing tag of an undeclared key may have any name, since a context-free grammar cannot
compare two names.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from grammars.errors import SchemaError
from grammars.regex.texts import Texts
from grammars.regex.writing import escape_regex, match_any
from grammars.schema.bits import Condition
from grammars.schema.counted import find_items
from grammars.schema.members import Members, Unordered, arrange
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
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
from grammars.spelling.nested import KEY, find_extras, is_key, is_writable, part, spell_words
from grammars.spelling.parts import take_apart
from grammars.turn_grammar.ir.nodes import (
    ANY_TEXT,
    EMPTY,
    ZERO,
    Expression,
    Literal,
    Pattern,
    Repeat,
    RuleReference,
    choice,
    exclude_beginning,
    guarded,
    intersection,
    many,
    optional,
    sequence,
)
from grammars.turn_grammar.members import write_items
from grammars.turn_grammar.values import (
    UNWRITABLE_KEYS,
    UNWRITABLE_KEYS_HINT,
    Values,
    admits_empty_text,
    match_texts,
    write_text,
)
from grammars.wire.format import NestedArguments


class NestedRules:
    """Adds the rules of nested tags to a grammar.

    Args:
        hole: how the format writes the arguments.
        values: writes other values into the grammar that is being built.
        definitions: the nodes that references name.
    """

    def __init__(self, hole: NestedArguments, values: Values, definitions: Mapping[str, Node]):
        self._hole, self._values, self._builder = hole, values, values.builder
        self._definitions = definitions
        self._valued: dict[int, tuple[Node, bool]] = {}  # by the id of the node
        # By the id of the node (so the node is kept), the tag, and `beside_text`.
        self._known: dict[tuple[int | None, str | None, bool], tuple[Node, Expression]] = {}

    def arguments(self, schema: Schema) -> Expression:
        """Returns all arguments of a tool; EMPTY if there can be none.

        Raises:
            SchemaError: a key or value cannot be written.
        """
        texts = find_texts(schema.objects, self._definitions)
        objects = [node for node in schema.objects if self._can_write(node)]
        if schema.objects and not objects:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        options = [self._members(node, texts) for node in objects]
        some = [option for option in options if option != EMPTY]
        if not some:
            return EMPTY
        body = choice(some)
        if len(some) < len(options):
            body = optional(body)
        return self._builder.define(body, "arguments")

    def _element(self, node: Node, tag: str | None, *, beside_text: bool = False) -> Expression:
        """Returns a value and its closing tag.

        Args:
            tag: the name of the tag; None: any name.
            beside_text: in another object that may stand here, the same member may be text.
        """
        key = (None if isinstance(node, AnyValue) else id(node), tag, beside_text)
        if key not in self._known:
            name = self._builder.reserve("value")
            self._known[key] = node, RuleReference(name)
            self._builder.fill(name, self._value(node, tag, beside_text=beside_text))
        return self._known[key][1]

    def _value(self, node: Node, tag: str | None, *, beside_text: bool) -> Expression:
        flat = list(part(flatten(node, self._definitions)))
        nodes = [n for n in flat if self._can_write(n)]
        if not nodes and any(isinstance(n, Object) for n in flat):
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        if not nodes:
            raise SchemaError("none of its values can be written between tags", where="")
        close = self._close(tag)
        strings = [branch for branch in nodes if isinstance(branch, String)]
        is_free = any(string.is_free for string in strings)
        has_text = beside_text or bool(strings)
        objects = [branch for branch in nodes if isinstance(branch, Object)]
        members_of_text = find_texts(objects, self._definitions)
        texts: list[Expression] = []
        options: list[Expression] = []
        for branch in nodes:
            text = self._match_text(branch) if has_text else None
            if text is None:
                options.append(sequence(self._body(branch, members_of_text), close))
            else:
                texts.append(ANY_TEXT if is_free else text)
        if texts:
            can_be_empty = any(map(admits_empty_text, nodes))
            options.append(self._write_text(texts, tag, can_be_empty=can_be_empty))
        return choice(options)

    def _can_write(self, node: Flat) -> bool:
        """Returns whether the format can write a value of this kind. It cannot write an object that
        requires more keys than it can write."""
        match node:
            case Constant(values):
                return is_writable(values[0], self._hole)
            case Object():
                members = self._arrange(node)
                return not isinstance(members, Unordered) or members.is_possible
            case _:
                return True

    def _arrange(self, node: Object) -> Members:
        """Returns how the members of an object that the format can write are arranged."""
        return arrange(
            self._list_declared(node),
            node.presence,
            extra=bool(find_extras(node, self._hole)),
            order=self._values.order,
        )

    def _list_declared(self, node: Object) -> list[Property]:
        """Returns the declared members, without optional ones that have no value."""
        return [p for p in node.properties if p.required or self._has_value(p.node)]

    def _has_value(self, node: Node) -> bool:
        """Returns whether the format can write a value of this node."""
        if id(node) not in self._valued:
            self._valued[id(node)] = node, True  # what contains itself is asked about once
            options = part(flatten(node, self._definitions))
            self._valued[id(node)] = node, any(map(self._can_write, options))
        return self._valued[id(node)][1]

    def _close(self, tag: str | None) -> Expression:
        """Returns a closing tag."""
        if tag is not None:
            return self._builder.fixed(self._hole.close(tag))
        return self._any_tag("</", Texts((KEY,)))

    def _any_tag(self, before: str, keys: Texts) -> Expression:
        """Returns a tag with any of these keys."""
        mark = self._hole.mark
        if mark in self._builder.ids:
            terminal = self._builder.terminal(match_texts(keys.wrap(before, ">")), "TAG")
            return sequence(self._builder.fixed(mark), terminal)
        return self._builder.terminal(match_texts(keys.wrap(mark + before, ">")), "TAG")

    def _body(self, node: Flat, texts: TextMembers) -> Expression:
        """Returns an expression for a value that is not text.

        Args:
            node: the value.
            texts: the members that may be text in another object that may stand here.
        """
        match node:
            case Array():
                return self._items(node)
            case Object():
                return self._members(node, texts)
            case Constant(values) if isinstance(values[0], str):
                return Literal(values[0]) if values[0] else EMPTY
            case Constant(values) if isinstance(values[0], list | dict):
                return self._body(cast(Flat, take_apart(values[0])), texts)
            case _:
                return self._values.value(node, self._definitions)

    def _items(self, node: Array) -> Expression:
        if node.contains is not None:  # the parser could read a text as an item of another type
            message = "what a list has to contain cannot be written between tags"
            raise SchemaError(message, where="", hint="Leave it out, or use a JSON format")
        counted = find_items(node)
        if counted is not None:
            values = {id(item): self._item(item) for item in counted.nodes}
            body = write_items(counted, values, comma=EMPTY, builder=self._builder)
            return optional(body) if counted.may_end(counted.start) else body
        most = node.max_items
        count = len(node.prefix) if most is None else min(len(node.prefix), most)
        body = EMPTY
        if node.items is not None and (most is None or most > count):
            fewest = max(0, node.min_items - count)
            body = Repeat(self._item(node.items), fewest, None if most is None else most - count)
        for i in reversed(range(count)):
            body = sequence(self._item(node.prefix[i]), body)
            if i >= node.min_items:
                body = optional(body)
        return body

    def _item(self, node: Node) -> Expression:
        """Returns an item and its tags."""
        name = self._hole.item
        opener = self._builder.fixed(self._hole.open(name))
        return sequence(opener, self._element(node, name))

    def _members(self, node: Object, texts: TextMembers) -> Expression:
        """Returns the members of an object; EMPTY if there can be none."""
        properties = self._list_declared(node)
        declared = [self._member(p, beside_text=texts.has(p)) for p in properties]
        extras: list[Expression] = []
        for keys, value in find_extras(node, self._hole):
            element = self._element(value, None, beside_text=texts.extras)
            extras.append(sequence(self._any_tag("<", keys), element))
        extra = self._builder.define(choice(extras), "extra") if extras else None
        members = self._arrange(node)
        if isinstance(members, Unordered):
            return self._write_unordered(members, declared, extra)
        parts: list[Expression] = []
        for property, member in zip(properties, declared, strict=True):
            parts.append(member if property.required else optional(member))
        if extra is not None:
            parts.append(many(extra))
        return self._builder.define(sequence(*parts), "members") if parts else EMPTY

    def _write_unordered(
        self, members: Unordered, declared: Sequence[Expression], extra: Expression | None
    ) -> Expression:
        """Returns the members in any order. The parameter of the rule holds which members are
        written.

        Raises:
            SchemaError: too few of the keys can be written.
        """
        if not members.is_possible:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        if not members.may_continue(members.start):
            return EMPTY
        options: list[tuple[Expression, Condition]] = [(EMPTY, members.can_end)]
        for i, member in enumerate(declared):
            following = RuleReference("members", members.after(i))
            options.append((sequence(member, following), members.can_add[i]))
        if extra is not None:
            for condition, argument in members.ways_to_add_extra:
                options.append((sequence(extra, RuleReference("members", argument)), condition))
        names = self._builder.family(
            {"members": guarded(options)}, needed=members.required_bits, least=members.least
        )
        return self._builder.enter(RuleReference(names["members"], ZERO))

    def _member(self, declared: Property, *, beside_text: bool) -> Expression:
        """Returns a declared member and its tags."""
        key, pointer = declared.key, f"/properties/{escape(declared.key)}"
        if not is_key(key):
            hint = "Rename it, or use a model with a JSON format"
            message = f"the key {key!r} cannot be written between tags"
            raise SchemaError(message, where=pointer, hint=hint)
        try:
            value = self._element(declared.node, key, beside_text=beside_text)
        except SchemaError as e:
            raise SchemaError(e.message, where=pointer + (e.where or ""), hint=e.hint) from None
        return sequence(self._builder.fixed(self._hole.open(key)), value)

    def _match_text(self, node: Flat) -> Expression | None:
        """Returns the texts of a node, for a terminal; None if they are not regular. If another
        branch is text, all branches must be, since the lexer cannot tell them apart."""
        match node:
            case String():
                return self._builder.terminal(write_text(node), "TEXT")
            case Number() if "multipleOf" not in node.bounds:
                return self._values.value(node, {})
            case Boolean():
                return Pattern(match_any(("true", "false")))
            case Null():
                return Pattern(match_any(("null",)))
            case Constant(values) if not isinstance(values[0], list | dict):
                return Pattern(match_any(spell_words(values[0])))
            case _:
                return None

    def _write_text(
        self, texts: Sequence[Expression], tag: str | None, *, can_be_empty: bool
    ) -> Expression:
        """Returns an expression for raw text and its closing tag."""
        mark, builder = self._hole.mark, self._builder
        without = exclude_beginning(f"(?s:.*){escape_regex(mark)}")
        raw = builder.terminal(intersection(choice(texts), without), "RAW")
        closing = mark + "</" if tag is None else self._hole.close(tag)
        if builder.begins_with_token(closing):
            some = builder.up_to_token(raw, empty=can_be_empty)
            return sequence(some, self._close(tag))
        if tag is None:
            return builder.lazy(sequence(raw, self._close(None)), "text")
        return builder.end_raw(raw, closing)
