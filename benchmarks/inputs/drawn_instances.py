"""Instances of JSON Schemas, drawn at random: read off the schema alone, without our lowering.

What is drawn may be invalid, as only the commonest keywords are followed; a validator has to look.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.strategies import DataObject

from benchmarks.inputs.drawn_patterns import draw_text
from grammars.errors import SchemaError
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object, look_up
from grammars.schema.validator import Validator

_DEEPEST = 5  # levels; below, objects and lists are as small as they may be
_TEXTS = st.text(st.sampled_from('ab Z09-_./:$é<>&"\\\n\t\u2028😀'), max_size=12)
_FREE = st.none() | st.booleans() | st.integers(-9, 9) | _TEXTS | st.lists(_TEXTS, max_size=2)
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_FORMATS: Mapping[str, tuple[str, ...]] = {
    "date": ("2024-02-29", "1999-12-31"),
    "time": ("12:30:00Z", "23:59:59.5+02:00"),
    "date-time": ("2024-02-29T12:30:00Z", "1999-12-31t23:59:59.123-08:00"),
    "duration": ("P1D", "PT36H", "P2W"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000"),
    "ipv4": ("127.0.0.1", "255.255.255.255"),
    "ipv6": ("::1", "2001:db8::ff00:42:8329", "::ffff:192.0.2.1"),
    "email": ("a@b.example", "first.last+tag@sub.example.org"),
    "hostname": ("localhost", "a-b.example.com"),
    "uri": ("https://example.com/a?b=c#d", "urn:isbn:0451450523", "mailto:a@b.example"),
    "uri-reference": ("/a/b", "#x", "https://example.com/%7Ea"),
    "regex": ("^a+$", "[0-9]{2}"),
    "json-pointer": ("", "/a/0/~1"),
}
_TWO_SIDED = frozenset(["properties", "patternProperties", "$defs", "definitions"])
_QUIET = settings(
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def draw_instances(schema: Json, count: int) -> list[Json]:
    """Valid instances of a schema, at most so many, no two alike."""
    validator = Validator(schema, schema)
    found: dict[str, Json] = {}

    @settings(_QUIET, max_examples=count)
    @given(st.data())
    def search(data: DataObject) -> None:
        value = _Draw(data, schema).draw(schema)
        if validator.admits(value):
            found.setdefault(repr(value), value)

    with suppress(HypothesisException, SchemaError, RecursionError):  # nothing more can be drawn
        search()
    return list(found.values())


class _Draw:
    """One instance under way."""

    def __init__(self, data: DataObject, root: Json):
        self._data = data
        self._root = root

    def draw(self, schema: Json, depth: int = 0) -> Json:
        """Returns an instance of a subschema."""
        flat = self._flatten(schema)
        if "const" in flat:
            return flat["const"]
        if "enum" in flat:
            return self._pick(flat["enum"])
        if not flat:
            return self._data.draw(_FREE)
        match self._pick(self._find_types(flat)):
            case "object":
                return self._draw_object(flat, depth)
            case "array":
                return self._draw_array(flat, depth)
            case "string":
                return self._draw_string(flat)
            case "integer" | "number" as kind:
                return self._draw_number(flat, integer=kind == "integer")
            case "boolean":
                return self._data.draw(st.booleans())
            case _:
                return None

    def _pick(self, options: Any) -> Any:
        return self._data.draw(st.sampled_from(list(options)))

    def _flip(self) -> bool:
        return self._data.draw(st.booleans())

    def _flatten(self, schema: Json) -> dict[str, Json]:
        """Returns the schema and what is conjoined with it as one; of alternatives one is drawn."""
        if not is_object(schema):
            return {}
        flat: dict[str, Json] = {}
        for part in self._list_parts(schema, depth=0):
            _merge(flat, part)
        return flat

    def _list_parts(self, schema: Json, depth: int) -> Iterator[dict[str, Json]]:
        if not is_object(schema) or depth > 50:
            return
        yield schema
        parts: list[Json] = []
        if isinstance(schema.get("$ref"), str):
            parts.append(look_up(self._root, schema["$ref"], ""))
        parts += schema.get("allOf", [])
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                parts.append(self._pick(schema[keyword]))
        if "if" in schema:
            parts += self._pick(
                [[schema["if"], schema.get("then", True)], [schema.get("else", True)]]
            )
        for part in parts:
            yield from self._list_parts(part, depth + 1)

    def _find_types(self, flat: Mapping[str, Json]) -> list[str]:
        if "type" in flat:
            return flat["type"] if is_list(flat["type"]) else [flat["type"]]
        if flat.keys() & {"properties", "required", "patternProperties", "additionalProperties"}:
            return ["object"]
        if flat.keys() & {"items", "prefixItems", "minItems", "maxItems", "contains"}:
            return ["array"]
        if flat.keys() & {"pattern", "format", "minLength", "maxLength"}:
            return ["string"]
        if flat.keys() & {"minimum", "maximum", "multipleOf"}:
            return ["number"]
        return [*_TYPES]

    def _draw_object(self, flat: Mapping[str, Json], depth: int) -> Json:
        declared: Mapping[str, Json] = flat.get("properties", {})
        required: list[str] = flat.get("required", [])
        if not is_list(required):
            required = []
        keys = list(required)
        if depth < _DEEPEST:
            most = max(1, 8 - 2 * depth)
            optional = [key for key in declared if key not in keys]
            if optional:
                keys += self._data.draw(
                    st.lists(st.sampled_from(optional), max_size=most, unique=True)
                )
        members: dict[str, Json] = {}
        for key in keys:
            members[key] = declared.get(key, True)
        for key, schema in self._draw_others(flat, depth):
            if key not in declared:
                members.setdefault(key, schema)
        names = list(members)
        if self._flip():
            names = self._data.draw(st.permutations(names))
        return {name: self.draw(members[name], depth + 1) for name in names}

    def _draw_others(self, flat: Mapping[str, Json], depth: int) -> Iterator[tuple[str, Json]]:
        """Undeclared keys and their schemas."""
        patterns: Mapping[str, Json] = flat.get("patternProperties", {})
        fewest = 1 if depth < _DEEPEST or flat.get("minProperties", 0) else 0
        for pattern, schema in patterns.items():
            for _ in range(self._data.draw(st.integers(0, 2 * fewest))):
                yield self._draw_matching(pattern), schema
        rest = flat.get("additionalProperties", True)
        if rest is False or patterns:
            return
        if rest is True and not self._flip():
            return
        for _ in range(self._data.draw(st.integers(0, 2 * fewest))):
            yield self._data.draw(st.sampled_from(["web", "db-1", "x.y/z", "é"]) | _TEXTS), rest

    def _draw_array(self, flat: Mapping[str, Json], depth: int) -> Json:
        prefix: list[Json] = flat.get("prefixItems", [])
        rest: Json = flat.get("items", True)
        if is_list(rest):
            prefix, rest = rest, flat.get("additionalItems", True)
        fewest = int(flat.get("minItems", 0))
        most = int(flat.get("maxItems", max(fewest, len(prefix)) + 2))
        if rest is False:
            most = min(most, len(prefix))
        if depth >= _DEEPEST:
            most = fewest
        if fewest > most:
            fewest = most
        items: list[Json] = []
        for index in range(self._data.draw(st.integers(fewest, min(most, fewest + 3)))):
            kind = prefix[index] if index < len(prefix) else rest
            item = self.draw(kind, depth + 1)
            if not flat.get("uniqueItems") or item not in items:
                items.append(item)
        return items

    def _draw_string(self, flat: Mapping[str, Json]) -> str:
        if "pattern" in flat:
            return self._draw_matching(flat["pattern"])
        if flat.get("format") in _FORMATS:
            return self._pick(_FORMATS[flat["format"]])
        fewest = int(flat.get("minLength", 0))
        most = int(flat.get("maxLength", fewest + 20))
        size = self._data.draw(
            st.integers(fewest, min(most, fewest + 20)) | st.just(min(most, 300))
        )
        text = self._data.draw(_TEXTS)
        return (text + "x" * size)[:size]

    def _draw_matching(self, pattern: str) -> str:
        return draw_text(pattern, self._data.draw(st.randoms(use_true_random=False)))

    def _draw_number(self, flat: Mapping[str, Json], *, integer: bool) -> Json:
        low, high = flat.get("minimum", flat.get("exclusiveMinimum")), flat.get("maximum")
        if isinstance(low, bool):
            low = flat.get("minimum")
        near: list[Json] = [0, 1, -1, 0.5, 1e3, 1e-7, 1e21, 123456789012, 2.0, -3.75]
        for bound in (low, high, flat.get("exclusiveMaximum")):
            if isinstance(bound, int | float) and not isinstance(bound, bool):
                near += [bound, bound + 1, bound - 1, bound + 0.5, float(bound)]
        step = flat.get("multipleOf")
        if step:
            near = [step, 0, -step, 3 * step, 4 * step, 100 * step, 1000.0 * step, 1e17 * step]
            if low is not None:
                near.append(-(-low // step) * step + 0)  # no negative zero
        if integer:
            near = [int(n) for n in near if abs(n) < 1e18] + [2.0, 7.0]
        return self._pick(near)


def _merge(flat: dict[str, Json], part: Mapping[str, Json]) -> None:
    """Adds what a conjoined schema says."""
    for keyword, value in part.items():
        if keyword in ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "$defs"):
            continue
        before = flat.get(keyword)
        if before is None:
            flat[keyword] = value
        elif keyword in _TWO_SIDED and is_object(value):
            merged = dict(before)
            for key, inner in value.items():
                merged[key] = {"allOf": [merged[key], inner]} if key in merged else inner
            flat[keyword] = merged
        elif keyword == "required" and is_list(value) and is_list(before):
            flat[keyword] = list(dict.fromkeys([*before, *value]))
        elif keyword == "type":
            some = before if is_list(before) else [before]
            others = value if is_list(value) else [value]
            flat[keyword] = [name for name in some if name in others] or some
        elif keyword in ("enum", "items", "additionalProperties", "const", "pattern", "format"):
            flat[keyword] = value
        elif keyword.lower().endswith(("minimum", "minlength", "minitems")):
            flat[keyword] = max(before, value)
        elif keyword.lower().endswith(("maximum", "maxlength", "maxitems")):
            flat[keyword] = min(before, value)
