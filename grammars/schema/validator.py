"""Validation by jsonschema-rs, limited to cases that end in time.

jsonschema-rs has no memory: it follows each reference again in every branch. A value of 60 bytes
and a schema of 300 bytes can take longer than anyone can wait, and nothing can interrupt it. So the
steps are counted beforehand. Counting is cheap, since each pair of value and schema is counted
once. It also compiles every pattern with its quantifiers expanded, so the sizes of patterns count
as steps of the caller.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import Any, TypeAlias

import jsonschema_rs

from grammars.errors import SchemaError
from grammars.limits.steps import StepsError, limit_steps, spend
from grammars.regex.string_formats import FURTHER_FORMATS
from grammars.regex.time_bounds import LOWER, UPPER, is_bound, is_within
from grammars.schema.json_values import Json, walk_values
from grammars.schema.patterns import PREFIX, Formats, adapt_patterns, spend_on_patterns
from grammars.schema.subschemas import (
    is_list,
    is_object,
    list_parts,
    look_up,
    map_parts,
    walk_schemas,
)

LATEST = "https://json-schema.org/draft/2020-12/schema"
MAX_WAYS = 1_000_000
"""The limit for comparisons of a value with a subschema, including repeated ones: 0.1 s."""
NATIVE_BYTES = 13
"""The approximate memory of jsonschema-rs per character of a schema."""
_MAX_EXPLAINED = 2_000
"""With more comparisons, an error gets no reason: it would contain the errors of all branches, at
100 us each."""
_MAX_IN_PLACE = 50_000  # of which there is one for each part of a value
_MAX_COUNTED = 100_000  # steps
_MAX_MESSAGE = 1_000  # characters
_ROOT = "urn:root"  # the URI under which jsonschema-rs knows the document
_PART = "urn:part"  # and a subschema of it
_ASSERTING_DRAFT = re.compile("http://json-schema.org/draft-0[467]/schema#?")
_MULTIPLIERS = re.compile(r'"(\$(ref|dynamicRef|recursiveRef)|unevaluated(Properties|Items))"')
"""Keywords without which a value is compared with each subschema at most once."""
_IN_PLACE = tuple("allOf anyOf oneOf not if then else dependentSchemas dependencies".split())
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


Resources: TypeAlias = Sequence[tuple[str, Json]]
"""Documents by their URIs."""


class RootDocument:
    """A document that references point into. The data that jsonschema-rs needs are made once, for
    any number of validators of its subschemas."""

    def __init__(self, source: Json):
        self.source = source

    @cached_property
    def dialect(self) -> dict[str, Json]:
        """Its `$schema`, for subschemas that become separate documents."""
        return {"$schema": self.source.get("$schema", LATEST) if is_object(self.source) else LATEST}

    @cached_property
    def resources(self) -> tuple[Resources, Formats]:
        """The document as `_ROOT`, for a registry, and the formats that it uses."""
        document, formats = adapt_patterns(self.source if is_object(self.source) else {})
        return [(_ROOT, {**self.dialect, **document})], formats


class Validator:
    """Checks whether values fit a schema, whose references point into a document, including
    `format`. The draft is that of `$schema`, by default 2020-12.

    Raises:
        ValueError: the schema is not valid, or refers to another document.
        StepsError: its patterns are too large; `where` points to one of them.
    """

    def __init__(self, source: Json, root: Json | RootDocument):
        self._source = source
        document = root if isinstance(root, RootDocument) else RootDocument(root)
        self._root: Json = document.source
        self._inner = _make_inner(source, document)

    def __reduce__(self) -> "tuple[type[Validator], tuple[Json, Json]]":
        # The validator of jsonschema-rs cannot be pickled.
        return Validator, (self._source, self._root)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + NATIVE_BYTES * len(self._text)

    @cached_property
    def _text(self) -> str:
        return json.dumps(self._source)

    def admits(self, value: Json) -> bool:
        """Returns whether the value fits; False also if the check would take too many steps."""
        return self._count_ways(value) <= MAX_WAYS and self._inner.is_valid(value)

    def find_error(self, value: Json) -> tuple[list[str | int], str] | None:
        """Returns the first error: the path to the value that does not fit, and a message; None:
        the value fits. Raises RecursionError or ValueError if the value is nested too deeply."""
        ways = self._count_ways(value)
        if ways > MAX_WAYS:
            return [], f"it takes more than {MAX_WAYS:,} steps to check the value by this schema"
        if self._inner.is_valid(value):
            return None
        if ways > _MAX_EXPLAINED:
            return [], "the value does not fit the schema"
        try:
            self._inner.validate(value)
        except jsonschema_rs.ValidationError as error:
            return list(error.instance_path), _word(error)
        return None

    def _count_ways(self, value: Json) -> int:
        is_simple = _MULTIPLIERS.search(self._text) is None
        if is_simple and len(self._text) * count_parts(value) <= MAX_WAYS:
            return 1
        with suppress(StepsError, RecursionError), limit_steps(_MAX_COUNTED):
            return _Ways(self._root).count(value, self._source)
        return MAX_WAYS + 1


def find_multiplied(document: Json) -> str | None:
    """Returns the JSON pointer of a schema that takes too many steps with any value, since its
    references and alternatives multiply; None: there is none. Raises RecursionError."""
    if not _MULTIPLIERS.search(json.dumps(document)):
        return None
    ways = _Ways(document)
    for pointer, schema in walk_schemas(document):
        try:
            with limit_steps(_MAX_COUNTED):
                if ways.count(None, schema) > _MAX_IN_PLACE:
                    return pointer
        except StepsError:
            return pointer
    return None


def count_parts(value: Json) -> int:
    return sum(1 for _ in walk_values(value))


class _Ways:
    """Counts the comparisons of a validator without memory, as an upper bound."""

    def __init__(self, root: Json):
        self._root = root
        self._known: dict[tuple[int, int], int] = {}
        self._under_way = set[tuple[int, int]]()
        self._circles = 0  # found so far

    def count(self, value: Json, schema: Json) -> int:
        """Returns the number of subschemas with which the value and its parts are compared."""
        if not is_object(schema):
            return 1
        key = id(value), id(schema)
        if key in self._known:
            return self._known[key]
        if key in self._under_way:  # jsonschema-rs detects the circle here
            self._circles += 1
            return 1
        spend()
        circles = self._circles
        self._under_way.add(key)
        ways = 1
        in_place = {keyword: schema[keyword] for keyword in _IN_PLACE if keyword in schema}
        for _, part in list_parts(in_place):
            ways += self.count(value, part)
        for keyword in _REFERENCES:
            if keyword in schema:
                ways += self.count(value, self._follow(schema[keyword]))
        if is_object(value):
            ways += self._count_members(value, schema)
        elif is_list(value):
            ways += self._count_items(value, schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            ways *= 2  # `unevaluated...` repeats all comparisons
        self._under_way.discard(key)
        if circles == self._circles:  # otherwise it depends on where the circle was entered
            self._known[key] = ways
        return ways

    def _count_members(self, members: dict[str, Json], schema: Mapping[str, Json]) -> int:
        properties = schema.get("properties")
        patterns = schema.get("patternProperties")
        others = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
        if is_object(patterns):
            others += patterns.values()
        ways = 0
        for key, member in members.items():
            ways += self.count(key, schema.get("propertyNames"))
            if is_object(properties) and key in properties:
                ways += self.count(member, properties[key])
            for other in others:
                ways += self.count(member, other)
        return ways

    def _count_items(self, items: list[Json], schema: Mapping[str, Json]) -> int:
        others = [schema.get(k) for k in ("additionalItems", "contains", "unevaluatedItems")]
        tuples: list[list[Json]] = []
        for keyword in ("items", "prefixItems"):
            found = schema.get(keyword)
            if is_list(found):
                tuples.append(found)
            else:
                others.append(found)
        ways = 0
        for index, item in enumerate(items):
            for listed in tuples:
                if index < len(listed):
                    ways += self.count(item, listed[index])
            for other in others:
                ways += self.count(item, other)
        return ways

    def _follow(self, reference: Json) -> Json:
        """Returns the target of a reference; for a dynamic reference, the whole document."""
        try:
            return look_up(self._root, reference, "")
        except SchemaError:
            return self._root


def _word(error: jsonschema_rs.ValidationError) -> str:
    """Returns the message of an error, without the format that replaces a pattern, and cut where it
    has a long value or constant."""
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Format):
        pattern = kind.format.removeprefix(PREFIX)
        if pattern != kind.format:
            text = json.dumps(error.instance, ensure_ascii=False)
            return f'{text} does not match "{pattern}"'
    message = error.message
    return message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}..."


def _make_inner(source: Json, root: RootDocument) -> Any:
    if source is root.source or isinstance(source, bool):
        document, formats = adapt_patterns(source)
        spend_on_patterns(source, formats)
        return _check(document, formats)
    alone, formats = adapt_patterns({**root.dialect, **_refer_to_root(source)})
    spend_on_patterns(source, formats)
    if '"$ref"' not in json.dumps(alone):
        return _check(alone, formats)
    resources, others = root.resources
    return _check(alone, formats | others, resources)


def _check(document: Json, formats: Formats, resources: Resources = ()) -> Any:
    draft = _ASSERTING_DRAFT.match(str(document.get("$schema"))) if is_object(document) else None
    try:
        return _compile(document, formats, resources)
    except jsonschema_rs.ValidationError:
        if draft is None:
            raise
    # The meta-schema asserts that patterns are those of ECMAScript with the flag `u`, which
    # refuses `}`, `(?i)` and more that the engine reads. A document that another one refers to is
    # not held against a meta-schema by jsonschema-rs, so that is done here.
    _read_meta_schema(draft[0]).validate(document)
    start = {"$schema": draft[0], "$ref": _PART}
    return _compile(start, formats, [*resources, (_PART, document)])


def _compile(document: Json, formats: Formats, resources: Resources) -> Any:
    registry = None
    if resources:
        registry = jsonschema_rs.Registry(resources, retriever=_refuse)
    return jsonschema_rs.validator_for(
        document,
        validate_formats=True,
        formats=_FURTHER | formats,
        registry=registry,
        retriever=_refuse,
        keywords=_KEYWORDS,
    )


class _FormatBound:
    """A bound of a date or time, as jsonschema-rs calls a keyword that it does not have. It sorts
    the keys of objects that it hands over."""

    def __init__(self, schema: Mapping[str, Json], bound: Json, path: Sequence[str | int]):
        self._keyword, self._bound = str(path[-1]), bound
        self._format = schema.get("format")
        self._is_bound = is_bound(self._format, bound)

    def validate(self, value: Json) -> None:
        if not self._is_bound or not isinstance(value, str):
            return
        if not is_within(str(self._format), self._keyword, self._bound, value):
            raise ValueError(f"{value!r} is beyond the {self._keyword} of {self._bound!r}")


def _has_format(name: str, text: str) -> bool:
    return re.fullmatch(FURTHER_FORMATS[name], text) is not None


_KEYWORDS: dict[str, type[Any]] = dict.fromkeys((*LOWER, *UPPER), _FormatBound)
"""Keywords that jsonschema-rs does not have."""
_FURTHER: Formats = {name: partial(_has_format, name) for name in FURTHER_FORMATS}
"""Assertions of the formats that jsonschema-rs does not have."""


@cache
def _read_meta_schema(draft: str) -> Any:
    """Returns a validator of schemas of a draft that takes any text for a pattern."""
    formats: Formats = {"regex": lambda text: True}
    meta_schema = {"$schema": draft, "$ref": draft}
    return jsonschema_rs.validator_for(meta_schema, validate_formats=True, formats=formats)


def _refuse(uri: str) -> Json:
    """Refuses other documents. jsonschema-rs calls this instead of fetching them."""
    raise ValueError(f"{uri} is another document")


def _refer_to_root(schema: Json) -> Json:
    """Makes the local references of a schema absolute, so that it can be a separate document;
    values of `enum` and `const` stay as they are."""
    if not is_object(schema):
        return schema
    moved = map_parts(schema, lambda part, _: _refer_to_root(part))
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = _ROOT + reference
    return moved
