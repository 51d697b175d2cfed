"""Grammar rules for the values of a lowered schema, written in the style of the template.

Objects and arrays become rules, not one `%json`. So an escaped spelling of a declared key cannot
pass as an undeclared key, every number is a finite double, and the same nodes serve the raw-text
formats. Only multiples, and patterns that cannot be parsed here, use llguidance's `%json`.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf

from grammars.errors import SchemaError
from grammars.regex.ranges import NUMBER
from grammars.regex.spelled import has_algebra, spell_extra_keys
from grammars.regex.texts import ANY, FREE, Texts
from grammars.regex.writing import escape_slashes, match_any
from grammars.schema.counted import Items, find_items
from grammars.schema.json_values import Json
from grammars.schema.members import KeyOrder, arrange
from grammars.schema.nodes import (
    LARGEST_MULTIPLE,
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
    Reference,
    String,
    Union,
    escape,
)
from grammars.schema.numbers import count_multiples, express_number
from grammars.schema.subschemas import is_list, is_object
from grammars.spelling.quoted import find_extra_keys, find_raw, find_strings
from grammars.spelling.styles import (
    deepen,
    find_breaks,
    has_json_strings,
    is_bare,
    is_writable,
    speaks_json,
    spell,
    spell_keys,
    spell_scalar,
)
from grammars.spelling.types import sort_properties, take_apart
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.ir.nodes import Language
from grammars.turn_grammar.members import MemberRules, write_items
from grammars.turn_grammar.terminals import match_json_strings, match_regex
from grammars.wire.format import JsonStyle

_MAX_MORE = 17  # digits after those that are written

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)?")


@dataclass(frozen=True)
class Multiples(Language):
    """The multiples of an integer from one to another, as llguidance writes them."""

    divisor: int
    first: int
    last: int

    @classmethod
    def of(cls, node: Number) -> "Multiples":
        divisor = int(node.bounds["multipleOf"])
        first, last = count_multiples(node)
        limit = LARGEST_MULTIPLE // divisor
        least = -limit if first == -inf else int(first)
        greatest = limit if last == inf else int(last)
        return cls(divisor, least * divisor, greatest * divisor)

    def begins(self, text: str) -> bool:
        return _INTEGER.fullmatch(text) is not None

    def accepts(self, text: str) -> bool:
        if not text.lstrip("-"):
            return False
        return int(text) % self.divisor == 0 and self.first <= int(text) <= self.last

    def extend(self, text: str) -> str | None:
        found = min(self._list_endings(text), key=len, default=None)
        if found is None and not text:
            found = min(("-" + rest for rest in self._list_endings("-")), key=len, default=None)
        return found

    def _list_endings(self, text: str) -> Iterator[str]:
        """Endings of this text: for each number of further digits, the one that is closest to
        zero."""
        digits = text.removeprefix("-")
        low, high = self.first, self.last
        if digits != text:
            low, high = -high, -low
        for more in range(1 if digits == "0" else _MAX_MORE):
            least = int(digits or "0") * 10**more
            greatest = least + 10**more - 1
            if not digits:  # the first digit is zero only if it is the only one
                least = 10 ** (more - 1) if more > 1 else 0
            found = -(-max(low, least) // self.divisor) * self.divisor
            if found <= min(high, greatest) and (digits or more):
                yield str(found)[len(digits) :]


LOOSE = r"( |\r?\n[ \t]{0,256})"
"""White space around the items of lists and objects, where the model may choose it, and where they
are nested deeper than exact indentation reaches. As a model may not find out of it, there is one
line break at most."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)

TIGHT: Mapping[str, Json] = {"x-guidance": {"whitespace_flexible": False}}
"""Without these options, `%json` allows white space before a value."""

_CHARACTER = (
    r'([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))"
)
"""One code point in a JSON string; surrogates only as pairs (RFC 8259, sections 7 and 8.2)."""

UNWRITABLE_KEYS = "it requires more keys than such a call can write"
UNWRITABLE_KEYS_HINT = "Declare its properties, or use a model with a JSON format"


@dataclass(frozen=True)
class Separators:
    opening: ir.Expression
    comma: ir.Expression
    closing: ir.Expression


class Values:
    """Adds the rules of values in one style to a grammar."""

    def __init__(
        self,
        builder: GrammarBuilder,
        style: JsonStyle | None = None,
        order: KeyOrder = KeyOrder.ANY,
    ):
        self.builder = builder
        self.order = order
        self.style = style or JsonStyle()
        self._level = self.style.level
        is_json = has_json_strings(self.style) and not self.style.bare_keys
        strings = JsonStrings if is_json else StyledStrings
        self._strings: JsonStrings | StyledStrings = strings(self.style, builder)
        # By the id of the definitions, name, and level of indentation.
        self._references: dict[tuple[int, str, int], ir.Expression] = {}

    def restyle(self, style: JsonStyle) -> "Values":
        """Returns the same for another style, in the same grammar."""
        return Values(self.builder, style, self.order)

    def value(self, node: Node, definitions: Mapping[str, Node]) -> ir.Expression:
        """Returns all values of a node in this style; SchemaError: a value or key cannot be
        written."""
        match node:
            case AnyValue():
                return self._any()
            case Constant(values):
                return self._constants(values)
            case String():
                return self._strings.string(node)
            case Number():
                return self._number(node)
            case Boolean():
                words = choose_word(self.style.true + self.style.false)
                return self.builder.define(words, "boolean")
            case Null():
                words = choose_word(self.style.null)
                if isinstance(words, ir.Literal):
                    return words
                return self.builder.define(words, "null")
            case Array():
                return self._array(node, definitions)
            case Object():
                return self._object(node, definitions)
            case Union(branches):
                options = [self.value(branch, definitions) for branch in branches]
                return self.builder.define(ir.choice(options), "union")
            case Reference(name):
                return self._reference(name, definitions)

    def spell(self, value: Json) -> str:
        return spell(value, self.style)

    def _constants(self, values: Sequence[Json]) -> ir.Expression:
        options: list[ir.Expression] = []
        for value in values:
            parts: list[ir.Expression] = []
            with suppress(SchemaError):  # it cannot be written
                self._add_constant(value, parts)
                options.append(ir.sequence(*parts))
        if not options:
            raise SchemaError("none of its values can be written in this format", where="")
        return self.builder.define(ir.choice(options), "enum")

    def _add_constant(self, value: Json, parts: list[ir.Expression]) -> None:
        """Adds the parts of a constant; raises SchemaError if it cannot be written.

        Objects with one order of keys need no rules; otherwise a deep constant would need a rule
        for each level. Lists and objects are not single words: the lexer would confuse such a word
        with another list or object that begins in the same way.
        """
        if is_list(value):
            self._add_members("[]", [(None, item) for item in value], parts)
        elif is_object(value) and len(value) < 2:
            self._add_members("{}", [*value.items()], parts)
        elif is_object(value):
            parts.append(self.value(take_apart(value), {}))
        else:
            scalar = self._strings.scalar(value)
            if scalar is None:
                raise SchemaError("it cannot be written in this format", where="")
            parts.append(scalar)

    def _add_members(
        self, brackets: str, members: Sequence[tuple[str | None, Json]], parts: list[ir.Expression]
    ) -> None:
        """Adds the members of a constant list (keys are None) or object."""
        separators = self._separators()
        parts.append(ir.Literal(brackets[0]))
        if members:
            parts.append(separators.opening)
        with self._inside():
            for index, (key, member) in enumerate(members):
                if index:
                    parts.append(separators.comma)
                if key is not None:
                    parts += [self._strings.key(key), self._after_key()]
                self._add_constant(member, parts)
        if members:
            parts.append(separators.closing)
        parts.append(ir.Literal(brackets[1]))

    def _number(self, node: Number) -> ir.Expression:
        if "multipleOf" in node.bounds:
            return self._multiple(node)
        regex = express_number(node)
        if regex is None:
            raise SchemaError("no number within its bounds can be written", where="")
        return self.builder.terminal(ir.Pattern(regex), "NUMBER")

    def _multiple(self, node: Number) -> ir.Expression:
        """Multiples of an integer: regular expressions for them would be too large."""
        multiples = Multiples.of(node)
        schema: dict[str, Json] = {"type": "integer", **TIGHT, "multipleOf": multiples.divisor}
        schema |= {"minimum": multiples.first, "maximum": multiples.last}
        return self.builder.define(ir.JsonSchema(json.dumps(schema), multiples), "number")

    def _reference(self, name: str, definitions: Mapping[str, Node]) -> ir.Expression:
        key = (id(definitions), name, self._level)
        if key not in self._references:
            rule = self.builder.reserve("ref")
            self._references[key] = ir.RuleReference(rule)
            self.builder.fill(rule, self.value(definitions[name], definitions))
        return self._references[key]

    def _any(self) -> ir.Expression:
        key = (0, "any", self._level)
        if key not in self._references:
            rule = self.builder.reserve("json")
            self._references[key] = ir.RuleReference(rule)
            options = [
                self._strings.string(String()),
                self.builder.terminal(ir.Pattern(NUMBER), "NUMBER"),
                choose_word(self.style.true + self.style.false + self.style.null),
                self._array(Array(), {}),
                self._object(Object(), {}),
            ]
            self.builder.fill(rule, ir.choice(options))
        return self._references[key]

    @contextmanager
    def _inside(self) -> Generator[None]:
        """Makes values one level deeper: inside a list or object."""
        before, self._level = self._level, deepen(self.style, self._level)
        yield
        self._level = before

    def _separators(self) -> Separators:
        breaks = find_breaks(self.style, self._level)
        if breaks.loose:
            space = self.space()
            return Separators(space, ir.sequence(ir.Literal(breaks.item.rstrip()), space), space)
        comma = ir.Literal(breaks.item)
        if not breaks.open:
            return Separators(ir.EMPTY, comma, ir.EMPTY)
        return Separators(ir.Literal(breaks.open), comma, ir.Literal(breaks.close))

    def space(self) -> ir.Expression:
        """Returns an expression for white space that the model chooses."""
        return ir.optional(self.builder.terminal(ir.Pattern(LOOSE), "SPACE"))

    def _after_key(self) -> ir.Expression:
        if not self.style.loose:
            return ir.Literal(self.style.key)
        return ir.sequence(ir.Literal(self.style.key.rstrip()), self.space())

    def _array(self, node: Array, definitions: Mapping[str, Node]) -> ir.Expression:
        separators = self._separators()
        counted = find_items(node)
        if counted is not None:
            return self._counted(counted, separators, definitions)
        with self._inside():
            item = None if node.items is None else self.value(node.items, definitions)
            first = [self.value(inner, definitions) for inner in node.prefix]
        if not first and item is not None:
            first = [item]
        body = ir.EMPTY
        if item is not None:
            body = self._more_items(node, ir.sequence(separators.comma, item))
        count = len(first) if node.max_items is None else min(len(first), node.max_items)
        for i in reversed(range(count)):
            if i:
                body = ir.sequence(separators.comma, first[i], body)
            else:
                body = ir.sequence(separators.opening, first[i], body, separators.closing)
            if i >= node.min_items:
                body = ir.optional(body)
            if i:
                body = self.builder.define(body, "tail")  # Lark limits the depth of nesting
        return self.builder.define(ir.sequence(ir.Literal("["), body, ir.Literal("]")), "array")

    def _more_items(self, node: Array, item: ir.Expression) -> ir.Expression:
        """Returns the items after the prefix (or after the first item), each with its comma."""
        before = max(1, len(node.prefix))
        fewest = max(0, node.min_items - before)
        if node.max_items is None:
            return ir.Repeat(item, fewest, None)
        if node.max_items <= before:
            return ir.EMPTY
        return ir.Repeat(item, fewest, node.max_items - before)

    def _counted(
        self, counted: Items, separators: Separators, definitions: Mapping[str, Node]
    ) -> ir.Expression:
        with self._inside():
            values = {id(item): self.value(item, definitions) for item in counted.nodes}
        body = write_items(counted, values, comma=separators.comma, builder=self.builder)
        if body != ir.EMPTY:
            body = ir.sequence(separators.opening, body, separators.closing)
            if counted.may_end(counted.start):
                body = ir.optional(body)
        return self.builder.define(ir.sequence(ir.Literal("["), body, ir.Literal("]")), "array")

    def _object(self, node: Object, definitions: Mapping[str, Node]) -> ir.Expression:
        separators = self._separators()
        with self._inside():
            properties = sort_properties(node, self.style)
            pairs = [self._pair(declared, definitions) for declared in properties]
            extra = self._extra(node, definitions)
        members = arrange(
            properties,
            node.presence,
            extra=bool(node.extras),
            order=self.order,
            mixed=self.style.sorted_keys,
        )
        rules = MemberRules(pairs, extra, comma=separators.comma, builder=self.builder)
        start = rules.write(properties, members)
        if start.body == ir.EMPTY:
            return ir.sequence(ir.Literal("{"), ir.Literal("}"))
        body = ir.sequence(separators.opening, start.body, separators.closing)
        if not start.required:
            body = ir.optional(body)
        return self.builder.define(ir.sequence(ir.Literal("{"), body, ir.Literal("}")), "object")

    def _extra(self, node: Object, definitions: Mapping[str, Node]) -> ir.Expression | None:
        """Returns an undeclared key and its value; None if none is allowed."""
        options: list[ir.Expression] = []
        for extra in node.extras:
            key = self._strings.extra_key(node.properties, extra.keys)
            value = self.value(extra.node, definitions)
            options.append(ir.sequence(key, self._after_key(), value))
        return self.builder.define(ir.choice(options), "extra") if options else None

    def _pair(self, declared: Property, definitions: Mapping[str, Node]) -> ir.Expression:
        key = self._strings.key(declared.key)
        try:
            value = self.value(declared.node, definitions)
        except SchemaError as e:
            pointer = f"/properties/{escape(declared.key)}{e.where or ''}"
            raise SchemaError(e.message, where=pointer, hint=e.hint) from None
        return self.builder.define(ir.sequence(key, self._after_key(), value), "pair")


class JsonStrings:
    """Adds the rules of JSON's strings and keys to a grammar."""

    def __init__(self, style: JsonStyle, builder: GrammarBuilder):
        self.style = style
        self.builder = builder

    def string(self, node: String) -> ir.Expression:
        if node.pattern is not None:
            strings = match_json_strings(node.pattern)
            if node.min_length or node.max_length is not None:
                length = ir.Pattern(f'"{_CHARACTER}{_count_characters(node)}"')
                strings = ir.intersection(strings, length)
            return self.builder.terminal(strings, "STRING")
        times = "*" if node.is_free else _count_characters(node)
        return self.builder.terminal(ir.Pattern(f'"{_CHARACTER}{times}"'), "STRING")

    def scalar(self, value: Json) -> ir.Expression:
        return choose_word(spell_scalar(value, self.style))

    def key(self, key: str) -> ir.Expression:
        return choose_word(spell_keys(key, self.style))

    def extra_key(self, declared: Sequence[Property], keys: Texts = FREE) -> ir.Expression:
        """Returns an expression for any of these keys, except the declared ones."""
        if not declared and keys.is_free:
            return self.string(String())
        names = [other.key for other in declared]
        return self.builder.terminal(match_texts(spell_extra_keys(keys, names)), "KEY")


class StyledStrings:
    """Adds the rules of strings and keys in styles other than JSON's.

    If the quote is a special token, a string is three parts: quote token, terminal, quote token.
    Its text cannot contain the quote in ordinary tokens either.
    """

    def __init__(self, style: JsonStyle, builder: GrammarBuilder):
        self.style = style
        self.builder = builder
        self._quote = builder.fixed(style.quotes[0])
        self._quotes_are_tokens = not style.escapes and builder.begins_with_token(style.quotes[0])

    def string(self, node: String) -> ir.Expression:
        if not self.style.escapes:
            return self._raw(node)
        return self.builder.terminal(match_texts(find_strings(node, self.style)), "STRING")

    def _raw(self, node: String) -> ir.Expression:
        texts = find_raw(node, self.style)
        body = self.builder.terminal(match_texts(texts), "TEXT")
        if not self._quotes_are_tokens:
            return self.builder.terminal(ir.sequence(self._quote, body, self._quote), "STRING")
        if texts.accepts(""):
            body = ir.optional(body)  # the lexer has no empty lexemes
        return self.builder.define(ir.sequence(self._quote, body, self._quote), "string")

    def scalar(self, value: Json) -> ir.Expression | None:
        """Returns a scalar, in all its spellings; None if it cannot be written."""
        if not isinstance(value, str):
            return choose_word(spell_scalar(value, self.style))
        if not is_writable(value, self.style):
            return None
        return self._word(value)

    def _word(self, text: str) -> ir.Expression:
        if not self._quotes_are_tokens:
            return choose_word(spell_scalar(text, self.style))
        body = ir.Literal(text) if text else ir.EMPTY
        return ir.sequence(self._quote, body, self._quote)

    def key(self, key: str) -> ir.Expression:
        """Returns a declared key; raises SchemaError if the style cannot write it."""
        fits = is_bare if self.style.bare_keys else is_writable
        if not fits(key, self.style):
            raise refuse_key(key, "in this format")
        if self._quotes_are_tokens and not self.style.bare_keys:
            return self._word(key)
        return choose_word(spell_keys(key, self.style))

    def extra_key(self, declared: Sequence[Property], keys: Texts = FREE) -> ir.Expression:
        """Returns an expression for any of these keys, except the declared ones."""
        texts = find_extra_keys([other.key for other in declared], self.style, keys)
        return self.builder.terminal(match_texts(texts), "KEY")


def refuse_key(key: str, place: str) -> SchemaError:
    """Returns the error for a key that cannot be written in this place."""
    message, where = f"the key {key!r} cannot be written {place}", f"/properties/{escape(key)}"
    return SchemaError(message, where=where, hint="Rename it, or use a model with a JSON format")


def make_strings(style: JsonStyle, builder: GrammarBuilder) -> JsonStrings | StyledStrings:
    """Returns the rules of strings that are read by themselves, as JSON if all of the style is."""
    strings = JsonStrings if speaks_json(style) else StyledStrings
    return strings(style, builder)


def choose_word(words: Sequence[str]) -> ir.Expression:
    return ir.choice(map(ir.Literal, words))


def match_texts(texts: Texts) -> ir.Expression:
    parts: list[ir.Expression] = []
    for regex in texts.parts or (ANY,):
        parts.append(match_regex(regex))
    for regex in texts.without:
        beginning = regex.removesuffix(ANY)
        has_options = "|" in _ESCAPED.sub("", beginning)
        if beginning == regex or has_options or has_algebra(beginning):
            parts.append(ir.Complement(match_regex(regex)))
        else:
            parts.append(ir.exclude_beginning(escape_slashes(beginning)))
    return ir.intersection(*parts)


def match_scalar(
    node: Flat, values: "Values", spell_words: Callable[[Json], Sequence[str]]
) -> ir.Expression | None:
    """Returns the texts of a node, for a terminal; None if they are not regular. `spell_words`
    returns the spellings of a constant."""
    match node:
        case String():
            return values.builder.terminal(write_text(node), "TEXT")
        case Number() if "multipleOf" not in node.bounds:
            return values.value(node, {})
        case Boolean():
            constants: Sequence[Json] = (True, False)
        case Null():
            constants = (None,)
        case Constant():
            constants = node.values
        case _:
            return None
    words: list[str] = []
    for constant in constants:
        words += spell_words(constant)
    return ir.Pattern(match_any(words))


def write_text(node: String) -> ir.Expression:
    """Returns the strings of a node without quotes, as part of a terminal."""
    length = ir.Pattern(f"(?s:.{_count_characters(node)})")
    if not node.pattern:
        return length
    return ir.intersection(length, match_regex(node.pattern))


def admits_empty_text(node: Flat) -> bool:
    """Returns whether a value of the node, written without quotes, can be the empty text."""
    match node:
        case String():
            return node.accepts("")
        case Constant(values):
            return "" in values
        case _:
            return False


def _count_characters(node: String) -> str:
    """Returns the quantifier for the length of a string."""
    longest = "" if node.max_length is None else node.max_length
    return f"{{{node.min_length},{longest}}}"
