"""Turns a flat schema (no references, conjunctions or alternatives) into nodes, type by type."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from itertools import chain
from math import inf, lcm

from grammars.errors import SchemaError
from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import StepsError, limit_steps
from grammars.regex.ecma import read_pattern
from grammars.regex.reader import counts_words
from grammars.regex.spelled import is_fully_spelled
from grammars.regex.string_formats import ASSERTED, FORMATS, NARROWED
from grammars.regex.texts import Texts
from grammars.regex.time_bounds import LOWER, UPPER, express_bounds, has_zone, is_bound
from grammars.schema.counted import MAX_STATES, Counted
from grammars.schema.json_values import Json
from grammars.schema.lowering.document.references import find_draft
from grammars.schema.lowering.findings import Findings
from grammars.schema.lowering.keywords import (
    ANNOTATIONS,
    EXPRESSIBLE,
    MAX_REMAINDERS,
    TYPES,
    as_list,
    is_asserting,
    is_idle,
    list_values,
    read_bounds,
)
from grammars.schema.lowering.nodes.inhabitation import NEVER
from grammars.schema.lowering.nodes.keys import read_keys
from grammars.schema.lowering.nodes.listed import exclude, list_choices
from grammars.schema.lowering.rewrite.merging import conjoin
from grammars.schema.lowering.rewrite.negation import is_expressible, negate
from grammars.schema.lowering.rewrite.presence import find_presence
from grammars.schema.members import MAX_BITS, can_be_unordered
from grammars.schema.nodes import (
    LARGEST_MULTIPLE,
    AnyValue,
    Array,
    Boolean,
    Constant,
    Contains,
    Extra,
    Node,
    Null,
    Number,
    Object,
    Property,
    Reference,
    String,
    escape,
    unite,
)
from grammars.schema.numbers import count_multiples, has_no_number
from grammars.schema.presence import simplify
from grammars.schema.subschemas import omit
from grammars.schema.validator import LATEST, RootDocument, Validator, count_parts

_LONG = 50  # characters
_LONG_BESIDE_WORDS = 100
"""A longer `maxLength` beside a pattern that counts words is checked, not enforced: llguidance
would follow both counts at once, and refuse texts that fit, or exceed its limit of expressions."""
_BITS = 63
"""Of integers without bounds, in the mask, besides the sign. Most clients read integers of 64 bits,
and a model that repeats a digit has to come to an end."""
_BITS_OF_FORMATS = {"uint64": 64, "uint": 64, "int128": 127, "uint128": 128}
"""Larger integers, as generators name them (schemars, for Rust)."""
_LONG_BESIDE_PATTERN = 2_500
"""A longer `maxLength` beside a pattern is checked, not enforced: llguidance has states for each
length, and for 6,000 characters more than it can keep."""
_MAX_PATTERN_LENGTH = 200_000  # characters; a class of all letters has 10,000
_MAX_JOINED = 3_000  # steps, of 20 us; real pairs take up to 2,000
_MAX_COUNTED = 2**31 - 1
_POWER_OF_TEN = re.compile("1(0{1,10})")  # the validator divides by no smaller numbers
_NO_LARGER = f"no multiples beyond {LARGEST_MULTIPLE:,}"
_PROPERTY = re.compile(r"\\[pP]\{")
_REPEATED = re.compile(r"\)[*+{]")
_COUNTING = frozenset(["contains", "minContains", "maxContains"])
_REPORTED_LATER = frozenset(["patternProperties", "propertyNames", "uniqueItems"]) | _COUNTING
"""Keywords that are reported when they are lowered."""
MAX_VALUES = 10_000  # of an enum that the mask enforces

Lower = Callable[[Json, str], Node]
"""Lowers a subschema, given its JSON pointer."""


class FlatLowering:
    """Lowers the flat schemas of one document.

    Args:
        root: the document.
        close: objects that declare properties allow no others, unless they say so.
        findings: receives what happens to each keyword.
        lower: lowers subschemas.
        definitions: what it has made of the definitions so far.
    """

    def __init__(
        self,
        root: Json,
        *,
        close: bool,
        findings: Findings,
        lower: Lower,
        definitions: Mapping[str, Node],
    ):
        self._document = RootDocument(root)
        self._close = close
        self._findings = findings
        self._lower = lower
        self._definitions = definitions
        self._divisors = 1  # the least common multiple of those that the mask enforces
        self._asserts_content = re.search("/draft-0[67]/", find_draft(root)) is not None

    def lower_constants(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns the values of `enum` or `const` that all other keywords allow."""
        values = list_values(flat)
        keyword = "enum" if "enum" in flat else "const"
        rest = omit(flat, keyword)
        if len(values) > MAX_VALUES or count_parts(values) > 2 * MAX_VALUES:
            self._findings.check(pointer, keyword, f"it has more than {MAX_VALUES:,} values")
            return self._lower({"type": find_types(values), **rest}, pointer)
        admits = self._make_test(rest, pointer)
        self._findings.enforce(pointer, keyword)
        admitted = filter(admits, values)
        distinct = {json.dumps(value, sort_keys=True): value for value in admitted}
        if not distinct:
            return NEVER
        return Constant(tuple(distinct.values()))

    def lower_exclusion(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns a schema with a `not` of an enum; enforced if nodes can express it."""
        excluded = flat["not"]
        values = as_list(excluded.get("enum", [excluded.get("const")]))
        node = self.lower_typed(omit(flat, "not"), pointer)
        rest = exclude(node, values)
        self._findings.note(pointer, ["not"], enforced=rest is not None)
        if rest is None:
            return node
        return rest

    def lower_typed(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns the union of the types that a schema allows, each with its keywords."""
        types: list[str] = as_list(flat.get("type", [*TYPES]))
        present = find_presence(flat)
        if not present.others:
            types = [name for name in types if name == "object"]
        if "type" in flat:
            self._findings.enforce(pointer, "type")
        spoken = set(present.keywords)
        for name in types:
            spoken.update(EXPRESSIBLE.get(name, ()))
        self._report(flat, pointer, spoken)
        if "type" not in flat and not flat.keys() & (spoken | _REPORTED_LATER):
            return AnyValue()
        return unite([self._lower_type(name, flat, pointer) for name in types])

    def _report(self, flat: Mapping[str, Json], pointer: str, spoken: set[str]) -> None:
        """Reports keywords that apply to these types but that lowering does not read."""
        of_other_types = set(chain.from_iterable(EXPRESSIBLE.values())) - spoken
        silent = ANNOTATIONS | _REPORTED_LATER | {"type"} | of_other_types
        for keyword in flat:
            if keyword in silent or is_idle(keyword, flat):
                continue
            if keyword in spoken:
                self._findings.enforce(pointer, keyword)
            elif is_asserting(keyword):
                self._findings.check(pointer, keyword, "not enforced by the mask")
            else:
                self._findings.ignore(pointer, keyword)

    def _make_test(self, schema: Json, pointer: str) -> Callable[[Json], bool]:
        """Makes the validator's test for values. A schema that was merged or negated may be invalid
        in an old draft; then it is read as the latest draft."""
        if isinstance(schema, bool):
            return lambda _: schema
        try:
            return Validator(schema, self._document).admits
        except StepsError:
            raise
        except ValueError:
            pass
        try:
            return Validator({"$schema": LATEST, **schema}, self._document).admits
        except StepsError:
            raise
        except ValueError as error:  # or a reference that `find_problem` has reported
            raise SchemaError(f"not a JSON Schema: {error}", where=pointer) from error

    def _lower_type(self, name: str, flat: Mapping[str, Json], pointer: str) -> Node:
        match name:
            case "object":
                return self._lower_object(flat, pointer)
            case "array":
                return self._lower_array(flat, pointer)
            case "string":
                return self._lower_string(flat, pointer)
            case "number" | "integer":
                return self._lower_number(flat, pointer, integer=name == "integer")
            case "boolean":
                return Boolean()
            case _:
                return Null()

    def _lower_object(self, flat: Mapping[str, Json], pointer: str) -> Node:
        required: list[str] = flat.get("required", [])
        rest = flat.get("additionalProperties")
        if rest is None:
            rest = not (self._close and "properties" in flat)
        present = find_presence(flat)
        keys = read_keys(
            flat, rest, present=present, validate=partial(self._make_test, pointer=pointer)
        )
        for keyword in ("patternProperties", "propertyNames"):
            if keyword in flat and not is_idle(keyword, flat):
                self._findings.enforce(pointer, keyword)
        for keyword, reason in keys.checked.items():
            self._findings.check(pointer, keyword, reason)
        properties: list[Property] = []
        for key, schema in keys.declared.items():
            inner = f"{pointer}/properties/{escape(key)}"
            node = self._lower(schema, inner)
            properties.append(Property(key, node, key in required, source=schema, pointer=inner))
        extras: list[Extra] = []
        for others in keys.others:
            keyword = "additionalProperties"
            if others.patterns:
                keyword = f"patternProperties/{escape(others.patterns[0])}"
            node = self._lower(others.schema, f"{pointer}/{keyword}")
            if node != NEVER:
                extras.append(Extra(node, others.schema, others.keys))
        if extras and present.presence.least > 1:
            self._findings.check(pointer, "minProperties", "an undeclared key may be written twice")
        number = None if extras else len(properties)
        presence = simplify(present.presence, required, number)
        if not can_be_unordered(properties):
            reason = "so all keys come in the order of the schema, then undeclared ones"
            self._findings.narrow(
                pointer, "required", f"more than {MAX_BITS} required keys, {reason}"
            )
        return Object(tuple(properties), None, presence=presence, patterned=tuple(extras))

    def _lower_array(self, flat: Mapping[str, Json], pointer: str) -> Node:
        items: Json = flat.get("items", True)
        prefix: list[Json] = flat.get("prefixItems", [])
        if isinstance(items, list):  # a tuple in drafts before 2020-12
            prefix, items = flat["items"], flat.get("additionalItems", True)
        nodes = [
            self._lower(schema, f"{pointer}/prefixItems/{i}") for i, schema in enumerate(prefix)
        ]
        rest = self._lower(items, f"{pointer}/items")
        array = Array(
            prefix=tuple(nodes),
            items=None if rest == NEVER else rest,
            min_items=self._read_length(flat, "minItems", pointer) or 0,
            max_items=self._read_length(flat, "maxItems", pointer),
        )
        if flat.get("uniqueItems") is True and not is_idle("uniqueItems", flat):
            distinct = self._lower_distinct(array, flat, pointer)
            if distinct is not None:
                return distinct
        if not _counts(flat):
            return array
        contains = self._lower_contains(flat, [*prefix, items], pointer)
        counted = replace(array, contains=contains)
        is_enforced = contains is not None and Counted(counted).size <= MAX_STATES
        self._findings.note(pointer, _COUNTING & flat.keys(), enforced=is_enforced)
        if is_enforced:
            return counted
        return array

    def _lower_distinct(self, array: Array, flat: Mapping[str, Json], pointer: str) -> Node | None:
        """Returns the lists without repeated items; None if the mask cannot enforce it."""
        items = array.items
        if isinstance(items, Reference):
            items = self._definitions[items.name]
            if isinstance(items, Constant):
                array = replace(array, items=items)
        distinct = list_choices(array)
        self._findings.note(pointer, ["uniqueItems"], enforced=distinct is not None)
        if distinct is None or not _counts(flat):
            return distinct
        # Lists that are written out can be tested. An automaton cannot count and compare at once.
        is_enforced = isinstance(distinct, Constant)
        self._findings.note(pointer, _COUNTING & flat.keys(), enforced=is_enforced)
        if is_enforced:
            return Constant(tuple(filter(self._make_test(flat, pointer), distinct.values)))
        return distinct

    def _lower_contains(
        self, flat: Mapping[str, Json], items: list[Json], pointer: str
    ) -> Contains | None:
        """Returns the limits for matching items, for the items of the prefix and, last, those after
        it; None if nodes cannot express it."""
        kind, most = flat["contains"], flat.get("maxContains")
        excluded: list[Json] = []  # any item may count as not matching
        if most is not None:  # unless the number of matches is limited
            most = int(most)
            others = negate(kind)
            excluded.append({"anyOf": others} if others else False)
        if not is_expressible(excluded):
            return None
        checked, enforced = dict(self._findings.checked), dict(self._findings.enforced)
        matching = [self._lower(conjoin(item, kind), f"{pointer}/contains") for item in items]
        unmatching = [
            self._lower(reduce(conjoin, excluded, item), f"{pointer}/items") for item in items
        ]
        is_loose = len(self._findings.checked) > len(checked)
        if is_loose and most is not None:
            self._findings.checked, self._findings.enforced = checked, enforced
            return None
        return Contains(
            tuple(matching),
            tuple(unmatching),
            least=int(flat.get("minContains", 1)),
            most=most,
        )

    def _lower_number(self, flat: Mapping[str, Json], pointer: str, *, integer: bool) -> Number:
        bounds = read_bounds(flat)
        divisor = Fraction(repr(bounds.pop("multipleOf", 1)))
        if "multipleOf" in flat:
            integer = integer or divisor.denominator == 1
        node = Number(integer, bounds)
        if integer:
            # Every integer is a multiple of 0.5, and each that is one of 2.5 is one of 5.
            node = self._limit_multiples(node, divisor.numerator, pointer)
            if "multipleOf" not in node.bounds:
                bits = _BITS_OF_FORMATS.get(str(flat.get("format")), _BITS)
                node = replace(node, mask_bounds=_find_mask_bounds(node, bits))
        elif "multipleOf" in flat:
            node = self._limit_places(node, divisor, pointer)
        if node.mask_bounds:
            shown = ", ".join(f"{name} {bound}" for name, bound in node.mask_bounds.items())
            self._findings.narrow(pointer, "type", f"{shown} in the mask")
        return node

    def _limit_multiples(self, node: Number, divisor: int, pointer: str) -> Number:
        """Returns the multiples of the divisor, if a mask can follow them.

        A mask follows the remainders of all numbers that may stand at one place of a value, and
        those of alternatives multiply. So the divisors of the whole document are limited together.
        """
        if divisor == 1:
            return node
        multiples = replace(node, bounds={**node.bounds, "multipleOf": divisor})
        within = _keep_small(multiples)
        together = lcm(self._divisors, divisor)
        if together > MAX_REMAINDERS:
            reason = "too many remainders for a mask, alone or with others in this schema"
            self._findings.check(pointer, "multipleOf", reason)
            return node
        if has_no_number(within) and not has_no_number(multiples):
            reason = "the bounds leave too many digits for a mask"
            self._findings.check(pointer, "multipleOf", reason)
            return node
        self._divisors = together
        if within != multiples:
            self._findings.narrow(pointer, "multipleOf", _NO_LARGER)
        return within

    def _limit_places(self, node: Number, divisor: Fraction, pointer: str) -> Number:
        """Returns the multiples of 0.1, 0.01 and so on; those of other divisors are checked."""
        power = _POWER_OF_TEN.fullmatch(str(1 / divisor))
        within = replace(_keep_small(node), places=len(power[1]) if power else None)
        if power is None or has_no_number(within):
            self._findings.check(pointer, "multipleOf", "has decimals")
            return node
        if within.bounds != node.bounds:
            self._findings.narrow(pointer, "multipleOf", _NO_LARGER)
        return within

    def _lower_string(self, flat: Mapping[str, Json], pointer: str) -> Node:
        pattern = self._read_pattern(flat, pointer)
        if self._asserts_content:
            for keyword in ("contentEncoding", "contentMediaType"):
                if keyword in flat:
                    self._findings.check(pointer, keyword, "asserted in this draft")
        name = flat.get("format")
        held = None
        if name in FORMATS:
            held = hold_format(pattern, self._bound_format(name, flat, pointer))
        if held is not None:
            if held != pattern and name in NARROWED:
                self._findings.narrow(pointer, "format", NARROWED[name])
            pattern = held
        elif name in FORMATS or name in ASSERTED:
            self._findings.check_format(pointer, name)
        shortest = self._read_length(flat, "minLength", pointer) or 0
        if shortest > _LONG and pattern is not None and _REPEATED.search(pattern):
            self._findings.check(
                pointer, "minLength", "too much for a mask together with that pattern"
            )
            shortest = 0
        longest = self._read_length(flat, "maxLength", pointer)
        bearable = _LONG_BESIDE_WORDS if counts_words(pattern) else _LONG_BESIDE_PATTERN
        if pattern is not None and longest is not None and longest > bearable:
            self._findings.check(
                pointer, "maxLength", "too much for a mask together with that pattern"
            )
            longest = None
        return String(shortest, longest, pattern)

    def _bound_format(self, name: str, flat: Mapping[str, Json], pointer: str) -> str:
        """Returns an expression for a format within the bounds beside it."""
        bounds = {keyword: flat[keyword] for keyword in (*LOWER, *UPPER) if keyword in flat}
        for keyword, bound in list(bounds.items()):
            if not is_bound(name, bound):
                self._findings.ignore(pointer, keyword, f"no bound of the format {name!r}")
                del bounds[keyword]
            elif has_zone(name, bound):
                self._findings.narrow(pointer, keyword, "in other zones than UTC: whole days")
        return express_bounds(name, bounds) if bounds else FORMATS[name]

    def _read_pattern(self, flat: Mapping[str, Json], pointer: str) -> str | None:
        """Returns the texts of `pattern` for the mask; None: all."""
        pattern = flat.get("pattern")
        if pattern is None:
            return None
        reading = read_pattern(pattern)
        if reading is None or len(reading.regex) > _MAX_PATTERN_LENGTH:
            self._findings.check(pointer, "pattern", "too large for a mask")
            return None
        if reading.left_out:
            reason = f"not in the mask: {', '.join(reading.left_out)}"
            self._findings.check(pointer, "pattern", reason)
        if not reading.is_unicode and _PROPERTY.search(pattern):
            reason = "it is valid without the flag u only, where \\p{L} is a text and no class"
            self._findings.narrow(pointer, "pattern", reason)
        if not is_fully_spelled(reading.regex):
            self._findings.narrow(pointer, "pattern", "no characters by their numbers (\\u00e9)")
        return reading.regex

    def _read_length(self, flat: Mapping[str, Json], keyword: str, pointer: str) -> int | None:
        """Returns the value of a length keyword, up to the number that a mask can count."""
        value = flat.get(keyword)
        if value is None:
            return None
        if value <= _MAX_COUNTED:
            return int(value)
        self._findings.check(pointer, keyword, "too large for a mask")
        if keyword.startswith("min"):
            return _MAX_COUNTED
        return None


@keep_results("regexes", MIB)
def hold_format(pattern: str | None, regex: str) -> str | None:
    """Returns an expression for the texts of a pattern that have a format: the pattern itself if it
    has no others; None if no text is found, or not without much effort."""
    if pattern is None:
        return regex
    with suppress(StepsError), limit_steps(_MAX_JOINED):
        if Texts((pattern,), (regex,)).is_empty():
            return pattern
    if not Texts((pattern, regex)).has_text(_MAX_JOINED):
        return None
    return f"(?&(?:{pattern})|(?:{regex}))"


def _counts(flat: Mapping[str, Json]) -> bool:
    """Returns whether `contains` excludes any list."""
    return "contains" in flat and (flat.get("minContains", 1) > 0 or "maxContains" in flat)


def _find_mask_bounds(node: Number, bits: int) -> dict[str, float]:
    """Returns the bounds of this many bits on each side where an integer has none; none if its
    other bound is beyond them."""
    least, greatest = -(2**bits), 2**bits - 1
    first, last = count_multiples(node)
    bounds: dict[str, float] = {}
    if first == -inf and (last == inf or least <= last <= greatest):
        bounds["minimum"] = least
    if last == inf and (first == -inf or least <= first <= greatest):
        bounds["maximum"] = greatest
    return bounds


def _keep_small(node: Number) -> Number:
    """Returns the numbers of the node whose digits a double holds: llguidance and others divide
    doubles."""
    bounds = dict(node.bounds)
    least = max(bounds.get("minimum", -inf), bounds.get("exclusiveMinimum", -inf))
    greatest = min(bounds.get("maximum", inf), bounds.get("exclusiveMaximum", inf))
    if least < -LARGEST_MULTIPLE:
        bounds.pop("exclusiveMinimum", None)
        bounds["minimum"] = -LARGEST_MULTIPLE
    if greatest > LARGEST_MULTIPLE:
        bounds.pop("exclusiveMaximum", None)
        bounds["maximum"] = LARGEST_MULTIPLE
    return replace(node, bounds=bounds)


def find_types(values: Sequence[Json]) -> list[str]:
    """Returns the JSON Schema types of these values; that of all numbers is `number`."""
    names: dict[type, str] = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return list(dict.fromkeys(names[type(value)] for value in values))
