"""Arguments between nested tags: each member and item has tags of its own, and text is raw.

In the grammar, text and its closing tag are one lexeme, so that the lexer can tell a text from the
first tag of an object. The closing tag of an undeclared key may have any name, since a context-free
grammar cannot compare two names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import cast

from grammars.errors import RenderError, SchemaError
from grammars.regex.texts import SPACES, Texts, match_words
from grammars.regex.writing import escape_regex
from grammars.schema.counted import find_items
from grammars.schema.json_values import Json
from grammars.schema.members import Members, Unordered, arrange
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
from grammars.schema.numbers import Reading, are_equal, find_whole, is_within
from grammars.schema.text_members import TextMembers, find_texts
from grammars.spelling.buffer import CutError, NotACallError, Steps
from grammars.spelling.coerce import read_words
from grammars.spelling.styles import spell, spell_scalar
from grammars.spelling.types import ONE_TYPE, has_type, list_types, split_types, take_apart
from grammars.spelling.value_reader import DeepJsonError
from grammars.turn_grammar.arguments.kind import (
    ArgumentRules,
    ArgumentsKind,
    CallParts,
    CallSource,
    CallsSpec,
    CallToWrite,
)
from grammars.turn_grammar.arguments.stream import ArgumentStream
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.members import MemberRules, write_items
from grammars.turn_grammar.values import (
    UNWRITABLE_KEYS,
    UNWRITABLE_KEYS_HINT,
    Values,
    admits_empty_text,
    match_scalar,
    match_texts,
    refuse_key,
)
from grammars.wire.format import MAX_NAME_LENGTH, Format, is_taggable
from grammars.wire.nodes import JsonStyle, NestedArguments

_KEY = rf"[^<>\/\x00-\x20{SPACES}][^<>\x00-\x20{SPACES}]{{0,{MAX_NAME_LENGTH - 1}}}"
"""A regular expression for an undeclared key."""
_DEEPEST = 100  # levels of tags that are read
_ANYTHING = AnyValue()


class NestedKind(ArgumentsKind):
    def __init__(self, hole: NestedArguments, format: Format):
        super().__init__(format)
        self._hole = hole

    @property
    def style(self) -> JsonStyle:
        return self._hole.style

    def make_rules(self, spec: CallsSpec) -> ArgumentRules:
        return lambda schema: NestedRules(self._hole, spec.values, schema).arguments()

    @property
    def beginnings(self) -> tuple[str, ...]:
        return (self._hole.mark,)

    def read(self, source: CallSource, parts: CallParts) -> Steps[None]:
        yield from _NestedReader(self._hole, source, source.find_schema(parts.name)).read(parts)

    def write(self, call: CallToWrite) -> str:
        arguments: Json = call.arguments  # of a cut call, they may be a text
        tree = _grow_tree(arguments, self._hole, call.where)
        if call.schema is not None:
            read = TreeReader(self._hole, call.schema).read_members(tree)
            for key, value in call.arguments.items():
                if not are_equal(read[key], value):
                    message = f"{value!r} would be read back as {read[key]!r}"
                    raise RenderError(message, where=call.at(key))
        return _write_tree(tree, self._hole)


@dataclass
class Tree:
    """The content of an element: text, or further elements."""

    text: str = ""
    members: "list[tuple[str, Tree]]" = field(default_factory=list["tuple[str, Tree]"])


# What can be written.


def _is_key(key: str) -> bool:
    return is_taggable(key) and not key.startswith("/")


def _find_extras(node: Object, hole: NestedArguments) -> list[Extra]:
    """Returns the undeclared members that can be written."""
    fitting = Texts((_KEY,), match_words([hole.item, *(p.key for p in node.properties)]))
    found = [replace(extra, keys=fitting.intersect(extra.keys)) for extra in node.extras]
    return [extra for extra in found if not extra.keys.is_empty()]


# The writer.


def _grow_tree(value: Json, hole: NestedArguments, where: str) -> Tree:
    """Returns the tags of a value; RenderError: a key or text cannot be written between tags."""
    match value:
        case str():
            if (value + hole.mark).find(hole.mark) != len(value):
                raise RenderError("the value contains the mark of a tag", where=where)
            return Tree(value)
        case list():
            items = [(str(i), item) for i, item in enumerate(cast(list[Json], value))]
            names = [hole.item] * len(items)
        case dict():
            items = list(cast(dict[str, Json], value).items())
            names = [key for key, _ in items]
            for key in names:
                if not _is_key(key):
                    message = f"the key {key!r} cannot be written between tags"
                    raise RenderError(message, where=f"{where}/{escape(key)}")
        case _:
            return Tree(spell(value, hole.style))
    inner = [_grow_tree(member, hole, f"{where}/{escape(key)}") for key, member in items]
    return Tree(members=list(zip(names, inner, strict=True)))


def _write_tree(tree: Tree, hole: NestedArguments) -> str:
    text = tree.text
    for key, inner in tree.members:
        text += hole.open(key) + _write_tree(inner, hole) + hole.close(key)
    return text


# The reader.


class _NestedReader:
    """Reads the arguments of a call, up to the closing tag after them."""

    def __init__(self, hole: NestedArguments, source: CallSource, schema: Schema | None):
        self._hole = hole
        self._buffer = source.buffer
        self._stream = ArgumentStream(schema, source.sink)
        self._trees = TreeReader(hole, schema)
        self._is_deep = False

    def read(self, parts: CallParts) -> Steps[None]:
        tree, mark = Tree(), self._hole.mark
        while True:
            yield from self._buffer.space()
            if not (yield from self._buffer.sees(mark)):
                raise NotACallError
            ahead = yield from self._buffer.need(len(mark) + 2)
            if ahead[len(mark) :] == "</":
                break
            self._buffer.take(len(mark))
            key = yield from self._read_tag()
            self._stream.open(key)
            member = yield from self._read_argument()
            tree.members.append((key, member))
            if not self._is_deep:
                self._stream.close(self._trees.read_member(key, member))
        if self._is_deep:
            raise DeepJsonError("the arguments are nested too deeply to be read")
        parts.arguments = self._trees.read_members(tree)
        self._stream.end(parts.arguments)

    def _read_tag(self) -> Steps[str]:
        """Reads the text between the brackets of a tag."""
        yield from self._buffer.literal("<")
        key = yield from self._buffer.take_while(
            lambda next: next not in "<>\n", MAX_NAME_LENGTH + 1
        )
        if self._buffer.take(1) != ">" or not key.strip("/"):
            raise NotACallError
        return key

    def _read_argument(self) -> Steps[Tree]:
        """Reads up to the closing tag. A closing tag closes the open one, whatever its name, since
        the mask cannot enforce the name for an undeclared key."""
        tree = Tree()
        stack = [tree]
        while stack:
            parts: list[str] = []
            at_start = len(stack) == 1 and not tree.members
            stop = yield from self._buffer.until((self._hole.mark,), self._sink(parts, at_start))
            if stop is None:
                raise CutError
            text = "".join(parts)
            tag = yield from self._read_tag()
            top = stack[-1]
            if tag.startswith("/"):
                stack.pop()
                top.text += text if not top.members else text.strip()
            elif text.strip() or (at_start and self._stream.has_text):
                raise NotACallError
            else:
                inner = Tree()
                top.members.append((tag, inner))
                stack.append(inner)
                self._is_deep |= len(stack) > _DEEPEST
            if top.members and top.text:
                raise NotACallError
        return tree

    def _sink(self, parts: list[str], at_start: bool) -> Callable[[str], None]:
        """Returns what takes text; at the start of an argument, this may be its value."""

        def take(text: str) -> None:
            parts.append(text)
            if at_start:
                self._stream.feed(text)

        return take


class TreeReader:
    """Converts trees to values by the schema of a tool; None: it is not known."""

    def __init__(self, hole: NestedArguments, schema: Schema | None):
        self._item = hole.item
        self._objects = (schema.objects if schema else []) or [Object()]
        self._definitions: Mapping[str, Node] = schema.definitions if schema else {}
        self._known: dict[tuple[int, int], Reading] = {}

    def read_members(self, tree: Tree) -> dict[str, Json]:
        """Returns the arguments of a tool, as the first object that they fit."""
        readings = [self._read_object(tree, node) for node in self._objects]
        return cast(dict[str, Json], _find_fitting(readings)[0])

    def read_member(self, key: str, tree: Tree) -> Json:
        """Returns one argument, as the first object declares it."""
        found = self._objects[0].find(key)
        return self._read(tree, _ANYTHING if found is None else found.node)[0]

    def _read(self, tree: Tree, node: Node) -> Reading:
        """Returns the first value that fits. JSON comes before text; an empty tree is text
        first."""
        key = id(tree), id(node)
        if key not in self._known:
            readings = [self._read_as(tree, branch) for branch in self._sort(tree, node)]
            found = [reading for reading in readings if reading is not None]
            self._known[key] = _find_fitting(found or [(self._read(tree, _ANYTHING)[0], False)])
        return self._known[key]

    def _sort(self, tree: Tree, node: Node) -> list[Flat]:
        """Returns the types that the node allows, in the order in which they are tried."""
        order = [type(one) for one in ONE_TYPE]
        if not tree.members and not tree.text:
            order.insert(0, String)

        def rank(branch: Flat) -> tuple[int, bool]:
            kind = type(branch)
            if isinstance(branch, Constant):
                value = branch.values[0]
                kind = next(type(one) for one in ONE_TYPE if has_type(value, list_types(one)))
            return order.index(kind), not (isinstance(branch, Number) and branch.integer)

        return sorted(split_types(flatten(node, self._definitions)), key=rank)

    def _read_as(self, tree: Tree, node: Flat) -> Reading | None:
        """Returns the tree as a value of this type; None if it has another type."""
        match node:
            case Constant(values):
                return (values[0], True) if self._spells(tree, values[0]) else None
            case Array() if tree.members or not tree.text.strip():
                return self._read_array(tree, node)
            case Object() if tree.members or not tree.text.strip():
                return self._read_object(tree, node)
            case String() if not tree.members:
                return tree.text, node.accepts(tree.text)
            case Number() | Boolean() | Null() if not tree.members:
                is_integer = isinstance(node, Number) and node.integer
                for word in read_words(tree.text):
                    whole = find_whole(word) if is_integer else None  # of a float such as 2.0
                    value = word if whole is None else whole
                    if has_type(value, list_types(node)):
                        return value, not isinstance(node, Number) or is_within(value, node.bounds)
                return None
            case _:
                return None

    def _read_array(self, tree: Tree, node: Array) -> Reading | None:
        if any(key != self._item for key, _ in tree.members):
            return None
        values, fits = list[Json](), node.min_items <= len(tree.members)
        for i, (_, member) in enumerate(tree.members):
            inner = node.find(i)
            value, fit = self._read(member, _ANYTHING if inner is None else inner)
            values.append(value)
            fits = fits and fit and inner is not None
        return values, fits and (node.max_items is None or len(values) <= node.max_items)

    def _read_object(self, tree: Tree, node: Object) -> Reading:
        values, fits = dict[str, Json](), True
        for key, member in tree.members:
            inner = node.find(key)
            value, fit = self._read(member, _ANYTHING if inner is None else inner.node)
            values.setdefault(key, value)
            fits = fits and fit and inner is not None
        return values, fits and all(p.key in values for p in node.properties if p.required)

    def _spells(self, tree: Tree, value: Json) -> bool:
        match value:
            case str():
                return not tree.members and tree.text == value
            case list():
                members = [(self._item, item) for item in cast(list[Json], value)]
            case dict():
                members = list(cast(dict[str, Json], value).items())
            case _:
                words = read_words(tree.text)
                return not tree.members and any(are_equal(v, value) for v in words)
        trees, parts = (sorted(pairs, key=itemgetter(0)) for pairs in (tree.members, members))
        if [key for key, _ in trees] != [key for key, _ in parts]:
            return False
        if not trees:
            return not tree.text.strip()
        pairs = zip(trees, parts, strict=True)
        return all(self._spells(inner, part) for (_, inner), (_, part) in pairs)


def _find_fitting(readings: Sequence[Reading]) -> Reading:
    return next((reading for reading in readings if reading[1]), readings[0])


# The grammar.


def _spell_words(value: Json) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else spell_scalar(value, JsonStyle())


class NestedRules:
    """Adds the rules of a tool's arguments to a grammar."""

    def __init__(self, hole: NestedArguments, values: Values, schema: Schema):
        self._hole, self._values, self._builder = hole, values, values.builder
        self._schema, self._definitions = schema, schema.definitions
        self._valued: dict[int, tuple[Node, bool]] = {}  # by the id of the node
        # By the id of the node (so the node is kept), the tag, and `beside_text`.
        self._known: dict[tuple[int | None, str | None, bool], tuple[Node, ir.Expression]] = {}

    def arguments(self) -> ir.Expression:
        """Returns all arguments; EMPTY if there can be none. SchemaError: one cannot be written."""
        texts = find_texts(self._schema.objects, self._definitions)
        objects = [node for node in self._schema.objects if self._can_write(node)]
        if self._schema.objects and not objects:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        options = [self._members(node, texts) for node in objects]
        some = [option for option in options if option != ir.EMPTY]
        if not some:
            return ir.EMPTY
        body = ir.choice(some)
        if len(some) < len(options):
            body = ir.optional(body)
        return self._builder.define(body, "arguments")

    # What can be written of a node.

    def _can_write(self, node: Flat) -> bool:
        """Returns whether a value of this type can be written, with all keys that it requires."""
        match node:
            case Constant(values):
                try:
                    _grow_tree(values[0], self._hole, "")
                except RenderError:
                    return False
                return True
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
            extra=bool(_find_extras(node, self._hole)),
            order=self._values.order,
        )

    def _list_declared(self, node: Object) -> list[Property]:
        """Returns the declared members, without optional ones that have no value."""
        return [p for p in node.properties if p.required or self._has_value(p.node)]

    def _has_value(self, node: Node) -> bool:
        if id(node) not in self._valued:
            self._valued[id(node)] = node, True  # what contains itself is asked about once
            options = split_types(flatten(node, self._definitions))
            self._valued[id(node)] = node, any(map(self._can_write, options))
        return self._valued[id(node)][1]

    # Values.

    def _element(self, node: Node, tag: str | None, *, beside_text: bool = False) -> ir.Expression:
        """Returns a value and its closing tag; None: with any name. `beside_text`: in another
        object that may stand here, the same member may be text."""
        key = (None if isinstance(node, AnyValue) else id(node), tag, beside_text)
        if key not in self._known:
            name = self._builder.reserve("value")
            self._known[key] = node, ir.RuleReference(name)
            self._builder.fill(name, self._value(node, tag, beside_text=beside_text))
        return self._known[key][1]

    def _value(self, node: Node, tag: str | None, *, beside_text: bool) -> ir.Expression:
        flat = list(split_types(flatten(node, self._definitions)))
        nodes = [branch for branch in flat if self._can_write(branch)]
        objects = [branch for branch in nodes if isinstance(branch, Object)]
        if not nodes and any(isinstance(branch, Object) for branch in flat):
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        if not nodes:
            raise SchemaError("none of its values can be written between tags", where="")
        strings = [branch for branch in nodes if isinstance(branch, String)]
        is_free = any(string.is_free for string in strings)
        members_of_text = find_texts(objects, self._definitions)
        texts: list[ir.Expression] = []
        options: list[ir.Expression] = []
        for branch in nodes:
            text = self._match_text(branch) if beside_text or strings else None
            if text is None:
                options.append(ir.sequence(self._body(branch, members_of_text), self._close(tag)))
            else:
                texts.append(ir.ANY_TEXT if is_free else text)
        if texts:
            can_be_empty = any(map(admits_empty_text, nodes))
            options.append(self._write_text(texts, tag, can_be_empty=can_be_empty))
        return ir.choice(options)

    def _close(self, tag: str | None) -> ir.Expression:
        if tag is not None:
            return self._builder.fixed(self._hole.close(tag))
        return self._any_tag("</", Texts((_KEY,)))

    def _any_tag(self, before: str, keys: Texts) -> ir.Expression:
        mark = self._hole.mark
        if mark in self._builder.ids:
            terminal = self._builder.terminal(match_texts(keys.wrap(before, ">")), "TAG")
            return ir.sequence(self._builder.fixed(mark), terminal)
        return self._builder.terminal(match_texts(keys.wrap(mark + before, ">")), "TAG")

    def _match_text(self, node: Flat) -> ir.Expression | None:
        """Returns the texts of a node, for a terminal; None if they are not regular. If another
        branch is text, all branches must be, since the lexer cannot tell them apart."""
        if isinstance(node, Constant) and isinstance(node.values[0], list | dict):
            return None
        return match_scalar(node, self._values, _spell_words)

    def _write_text(
        self, texts: Sequence[ir.Expression], tag: str | None, *, can_be_empty: bool
    ) -> ir.Expression:
        mark, builder = self._hole.mark, self._builder
        without = ir.exclude_beginning(f"(?s:.*){escape_regex(mark)}")
        raw = builder.terminal(ir.intersection(ir.choice(texts), without), "RAW")
        closing = mark + "</" if tag is None else self._hole.close(tag)
        if builder.begins_with_token(closing):
            some = builder.up_to_token(raw, empty=can_be_empty)
            return ir.sequence(some, self._close(tag))
        if tag is None:
            return builder.lazy(ir.sequence(raw, self._close(None)), "text")
        return builder.end_raw(raw, closing)

    def _body(self, node: Flat, texts: TextMembers) -> ir.Expression:
        """Returns a value that is no text; `texts` may be text in another object that may stand
        here."""
        match node:
            case Array():
                return self._items(node)
            case Object():
                return self._members(node, texts)
            case Constant((str() as text,)):
                return ir.Literal(text) if text else ir.EMPTY
            case Constant(values) if isinstance(values[0], list | dict):
                return self._body(cast(Flat, take_apart(values[0])), texts)
            case _:
                return self._values.value(node, self._definitions)

    # Items and members.

    def _items(self, node: Array) -> ir.Expression:
        if node.contains is not None:  # the parser could read a text as an item of another type
            message = "what a list has to contain cannot be written between tags"
            raise SchemaError(message, where="", hint="Leave it out, or use a JSON format")
        counted = find_items(node)
        if counted is not None:
            values = {id(item): self._item(item) for item in counted.nodes}
            body = write_items(counted, values, comma=ir.EMPTY, builder=self._builder)
            return ir.optional(body) if counted.may_end(counted.start) else body
        most = node.max_items
        count = len(node.prefix) if most is None else min(len(node.prefix), most)
        body = ir.EMPTY
        if node.items is not None and (most is None or most > count):
            fewest = max(0, node.min_items - count)
            body = ir.Repeat(self._item(node.items), fewest, None if most is None else most - count)
        for i in reversed(range(count)):
            body = ir.sequence(self._item(node.prefix[i]), body)
            if i >= node.min_items:
                body = ir.optional(body)
        return body

    def _item(self, node: Node) -> ir.Expression:
        name = self._hole.item
        return ir.sequence(self._builder.fixed(self._hole.open(name)), self._element(node, name))

    def _members(self, node: Object, texts: TextMembers) -> ir.Expression:
        """Returns the members of an object; EMPTY if there can be none."""
        members = self._arrange(node)
        if isinstance(members, Unordered) and not members.is_possible:
            raise SchemaError(UNWRITABLE_KEYS, where="", hint=UNWRITABLE_KEYS_HINT)
        properties = self._list_declared(node)
        declared = [self._member(p, beside_text=texts.has(p)) for p in properties]
        extras: list[ir.Expression] = []
        for extra in _find_extras(node, self._hole):
            element = self._element(extra.node, None, beside_text=texts.extras)
            extras.append(ir.sequence(self._any_tag("<", extra.keys), element))
        extra = self._builder.define(ir.choice(extras), "extra") if extras else None
        rules = MemberRules(declared, extra, comma=ir.EMPTY, builder=self._builder)
        written = rules.write(properties, members)
        return written.body if written.required else ir.optional(written.body)

    def _member(self, declared: Property, *, beside_text: bool) -> ir.Expression:
        key, pointer = declared.key, f"/properties/{escape(declared.key)}"
        if not _is_key(key):
            raise refuse_key(key, "between tags")
        try:
            value = self._element(declared.node, key, beside_text=beside_text)
        except SchemaError as e:
            raise SchemaError(e.message, where=pointer + (e.where or ""), hint=e.hint) from None
        return ir.sequence(self._builder.fixed(self._hole.open(key)), value)
