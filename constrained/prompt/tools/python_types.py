"""Describes Python types in JSON Schema, and converts JSON to them; pydantic does both.

A schema says all that the conversion demands, as far as JSON Schema can: the mask is made of it.
pydantic's own schemas leave some of it out, and describe other texts than it reads (a `datetime`
needs no zone). `constrained.prompt.tools.drawn_values` tries whether both agree.
"""

import enum
import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import partial
from math import inf
from typing import Any

from pydantic import ByteSize, EmailStr, NameEmail, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic.types import EncodedStr
from pydantic_core import SchemaError, SchemaValidator, core_schema, to_jsonable_python

from constrained.prompt.tools.engine_patterns import write_engine_pattern
from constrained.prompt.tools.struct_types import adopt_structs
from grammars.regex.ranges import express_range
from grammars.regex.reader import PatternError
from grammars.regex.string_formats import FURTHER_FORMATS
from grammars.regex.time_bounds import NOW
from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import read_bounds

_MAPS = ("properties", "$defs", "patternProperties", "dependentSchemas")  # names -> schemas
_VALUES = ("default", "const", "enum", "examples")
_RANKS = {"type": -2, "description": -1, "default": 1, "$defs": 2}  # of keywords; others: 0
_SCHEMES = {
    frozenset(["http", "https"]): "http-url",
    frozenset(["ws", "wss"]): "ws-url",
    frozenset(["ftp"]): "ftp-url",
}
"""Formats of URLs by their schemes."""
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
"""Bounds in pydantic's core schemas, and in JSON Schema."""
_COMPARED = {**_BOUNDS, "multiple_of": "multipleOf"}
_NOW_BOUNDS = {"past": "formatExclusiveMaximum", "future": "formatExclusiveMinimum"}
_UNITS = {"P{}D": 86_400, "PT{}H": 3_600, "PT{}M": 60, "PT{}S": 1}
"""Durations of a single unit, and its seconds."""
_MAX_PLACES = 15  # of a float that is a key
_OPAQUE = frozenset(["metadata", "serialization", "expected", "default", "config"])
"""What parts of pydantic's core schemas are not schemas themselves."""


class TypeReader:
    def __init__(self, kind: Any):
        adapter: TypeAdapter[Any] = TypeAdapter(adopt_structs(kind))
        core = _adapt(adapter.core_schema)
        self._read = adapter.validate_json
        if core is not adapter.core_schema:
            # Not with the validators that models have already, which are not adapted.
            self._read = _make_validator(core).validate_json

    def read(self, value: Json) -> Any:
        return self._read(json.dumps(value))  # strict types accept a date only from JSON


def _make_validator(core: Any) -> SchemaValidator:
    try:
        return SchemaValidator(core, _use_prebuilt=False)
    except TypeError:  # before pydantic 2.13, whose 2.11 and 2.12 use them all the same
        return SchemaValidator(core)


def _adapt(part: Any, *, are_keys: bool = False) -> Any:
    """Changes what a core schema of pydantic reads from JSON to what our schemas describe: a
    `Literal` takes the values of the members of an enum, keys of an object are the JSON texts of
    their values, `Json` takes the value itself in place of its text. Returns the same object if
    nothing changes."""
    if isinstance(part, list | tuple):
        items = [_adapt(item, are_keys=are_keys) for item in part]
        return part if _are_same(items, part) else type(part)(items)
    if not isinstance(part, dict):
        return part
    is_schema = isinstance(part.get("type"), str)  # otherwise a map of fields or choices
    adapted: Any = {}
    for key, inner in part.items():
        if not (is_schema and key in _OPAQUE):
            inner = _adapt(inner, are_keys=are_keys or key == "keys_schema")
        adapted[key] = inner
    if _are_same(adapted.values(), part.values()):
        adapted = part
    match part.get("type"):
        case "json":
            inner = adapted.get("schema", core_schema.any_schema())
            ref = adapted.get("ref")  # others refer to it
            return inner if ref is None else core_schema.chain_schema([inner], ref=ref)
        case "literal" | "enum" if members := _list_members(part, are_keys=are_keys):
            plain: Any = {key: inner for key, inner in adapted.items() if key != "ref"}
            find: Any = partial(_find_member, members)
            return core_schema.no_info_before_validator_function(
                find, plain, ref=adapted.get("ref")
            )
        case "tagged-union" if any(isinstance(tag, enum.Enum) for tag in part["choices"]):
            choices = dict(adapted["choices"])
            for tag, choice in adapted["choices"].items():
                if isinstance(tag, enum.Enum):
                    choices.setdefault(tag.value, choice)
            return {**adapted, "choices": choices}
        case _:
            return adapted


def _are_same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _list_members(part: Mapping[str, Any], *, are_keys: bool) -> list[tuple[Json, Any]]:
    """Returns the members that pydantic does not find by their JSON, each behind this JSON: those
    of enums in a `Literal`, those whose value is not JSON, such as a date, and keys that are no
    texts."""
    members: list[tuple[Json, Any]] = []
    for member in part.get("expected", part.get("members", ())):
        plain = member.value if isinstance(member, enum.Enum) else member
        value = to_jsonable_python(plain)
        if are_keys and not isinstance(value, str):
            members.append((json.dumps(value), member))
        elif type(value) is not type(plain) or (part["type"] == "literal" and plain is not member):
            members.append((value, member))
    return members


def _find_member(members: list[tuple[Json, Any]], value: Any) -> Any:
    for known, member in members:
        if type(known) is type(value) and known == value:
            return member
    return value


def describe_type(kind: Any) -> dict[str, Any]:
    """Returns the JSON Schema of a type; errors of pydantic and of users' hooks are not caught."""
    schema = TypeAdapter(adopt_structs(kind)).json_schema(schema_generator=_JsonSchema)
    for definition in schema.get("$defs", {}).values():
        if not definition.keys().isdisjoint({"enum", "const"}):
            definition.pop("title", None)  # the name of an enum class
    if "$ref" in schema:  # a recursive class; templates need its properties here
        definition = schema["$defs"][schema.pop("$ref").removeprefix("#/$defs/")]
        schema = {**definition, **schema}
    return schema


class _JsonSchema(GenerateJsonSchema):
    """pydantic's schemas without generated titles, and with what its conversion demands."""

    # A default that is not JSON is left out of the schema; the function still has it. Declared like
    # pydantic's own, without ClassVar.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: Any, parent_key: str | None = None) -> Any:
        """Sorts keywords as models know them; pydantic has `properties` before `type`."""
        if isinstance(value, list):
            return [self.sort(item) for item in value]
        if not isinstance(value, dict):
            return value
        parts: dict[str, Any] = {}
        for key, part in value.items():
            if key not in _VALUES:
                part = self.sort(part, key)
            parts[key] = part
        if parent_key in _MAPS:
            return parts
        return dict(sorted(parts.items(), key=_rank_member))

    def model_schema(self, schema: Any) -> dict[str, Any]:
        return _without_title(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        return _without_title(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        return _without_title(super().typed_dict_schema(schema), schema)

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        made = super().generate_inner(schema)
        function = schema.get("function")
        if isinstance(function, dict):  # a method of a type of pydantic, which has a core schema
            kind = getattr(function.get("function"), "__self__", None)
            text = f"{made.get('format')}-text"
            if isinstance(kind, EncodedStr) and text in FURTHER_FORMATS:
                made["format"] = text
            if kind in (EmailStr, NameEmail):  # no host without a dot
                made["format"] = "email-address"
            if kind is ByteSize:
                made["anyOf"][0]["pattern"] = r"^\d{1,9}(\.\d{1,3})? ?([kmgtpe]i?)?b?$"
        for key, keyword in _COMPARED.items():  # of a union
            if key in made:
                made[keyword] = made.pop(key)
        return made

    def str_schema(self, schema: Any) -> dict[str, Any]:
        made = super().str_schema(schema)
        if (pattern := schema.get("pattern")) is not None:
            engine = schema.get("regex_engine", self._config.regex_engine)
            try:
                made["pattern"] = write_engine_pattern(pattern, is_python=engine == "python-re")
            except PatternError as e:
                self.handle_invalid_for_json_schema(schema, f"a pattern: {e}")
        strips = schema.get("strip_whitespace", self._config.str_strip_whitespace)
        if strips and not made.keys().isdisjoint({"minLength", "pattern"}):  # are of the rest
            rest = {"pattern": write_engine_pattern(r"^(\S(.*\S)?)?$", is_python=False)}
            made |= {"allOf": [rest]} if "pattern" in made else rest
        return made

    def chain_schema(self, schema: Any) -> dict[str, Any]:
        """With the patterns behind a validator, which are wrapped steps of their own."""
        made = super().chain_schema(schema)
        for step in schema["steps"][1:]:
            inner = step.get("schema", step)
            if inner["type"] == "str" and made.get("type", "string") == "string":
                made = {**self.str_schema(inner), **made}
        return made

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """As numbers, as models write them; not also as texts."""
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        limits: dict[str, float] = {}
        for key in ("ge", "gt", "le", "lt", "multiple_of"):
            if schema.get(key) is not None:
                limits[key] = float(schema[key])
        number: Any = {**schema, **limits}
        made = self.float_schema(number)
        if digits is not None and places is None:
            places = digits // 2
        if places is not None:
            made.setdefault("multipleOf", float(f"1e-{places}") if places else 1)
        if digits is not None:
            _tighten(made, 10 ** (digits - places))
        return made

    def date_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "string", "format": "date", **_list_time_bounds(schema)}

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        return _choose_format(schema, "date-time", naive="date-time-local", either="iso-date-time")

    def time_schema(self, schema: Any) -> dict[str, Any]:
        return _choose_format(schema, "time", naive="time-local", either="iso-time")

    def timedelta_schema(self, schema: Any) -> dict[str, Any]:
        made = {"type": "string", "format": "duration"}
        bounds = {key: schema[key] for key in _BOUNDS if schema.get(key) is not None}
        return {**made, "pattern": _spell_durations(bounds)} if bounds else made

    def uuid_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "string", "format": f"uuid{schema.get('version') or ''}"}

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        made = super().bytes_schema(schema)
        match self._config.val_json_bytes:
            case "base64":
                made["format"] = "base64url"
            case "hex":
                made["pattern"] = "^([0-9a-f]{2})*$"
            case _:
                if "maxLength" in made:  # in bytes; that of a character would be up to four
                    made["pattern"] = r"^[\x00-\x7f]*$"
        return made

    def complex_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "string", "format": "python-complex"}

    def union_schema(self, schema: Any) -> dict[str, Any]:
        made = super().union_schema(schema)
        if made == {"anyOf": []}:
            return self.handle_invalid_for_json_schema(schema, "any of these alternatives")
        return made

    def is_subclass_schema(self, schema: Any) -> dict[str, Any]:
        return self.handle_invalid_for_json_schema(schema, "a class (type[...])")

    def json_schema(self, schema: Any) -> dict[str, Any]:
        """The value itself, since models escape texts of texts badly (see `_adapt`)."""
        return self.generate_inner(schema.get("schema") or core_schema.any_schema())

    def set_schema(self, schema: Any) -> dict[str, Any]:
        return self._allow_repeated(super().set_schema(schema))

    def frozenset_schema(self, schema: Any) -> dict[str, Any]:
        return self._allow_repeated(super().frozenset_schema(schema))

    def url_schema(self, schema: Any) -> dict[str, Any]:
        made = super().url_schema(schema)
        made.pop("minLength", None)
        schemes = schema.get("allowed_schemes")
        if schemes is None:
            return {**made, "format": "any-url"}
        if name := _SCHEMES.get(frozenset(schemes)):
            return {**made, "format": name}
        made.pop("format")
        return {**made, "pattern": _spell_address(schemes)}

    def multi_host_url_schema(self, schema: Any) -> dict[str, Any]:
        return self.url_schema(schema)

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        return self._limit_keys(super().dict_schema(schema), schema)

    def frozendict_schema(self, schema: Any) -> dict[str, Any]:
        return self._limit_keys(super().frozendict_schema(schema), schema)

    def ordered_dict_schema(self, schema: Any) -> dict[str, Any]:
        return self._limit_keys(super().ordered_dict_schema(schema), schema)

    def counter_schema(self, schema: Any) -> dict[str, Any]:
        return self._limit_keys(super().counter_schema(schema), schema)

    def _allow_repeated(self, made: dict[str, Any]) -> dict[str, Any]:
        """Removes `uniqueItems` of a set where the mask could not exclude repeated items."""
        if made.get("minItems", 0) < 2 and "enum" not in self._resolve(made["items"]):
            del made["uniqueItems"]
        return made

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return self.get_schema_from_definitions(schema["$ref"]) or {}
        return schema

    def _limit_keys(self, made: dict[str, Any], schema: Any) -> dict[str, Any]:
        """Adds what keys that are no strings look like, and excludes all others."""
        keys = schema.get("keys_schema")
        if keys is None:
            return made
        if "patternProperties" in made:
            made["additionalProperties"] = False
        names = self._describe_keys(self.generate_inner(keys))
        if names is None:
            problem = (
                "keys that are no texts in JSON (use list[tuple[K, V]] in place of dict[K, V])"
            )
            return self.handle_invalid_for_json_schema(schema, problem)
        if names.get("type") != "string" and names:
            made["propertyNames"] = names
        return made

    def _describe_keys(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the schema of the texts of keys, the same one for texts; None: there are none."""
        schema = self._resolve(schema)
        if "anyOf" in schema:
            options: list[dict[str, Any]] = []
            for option in map(self._describe_keys, schema["anyOf"]):
                if option is not None:
                    options.append(option)
            return {"anyOf": options} if len(options) > 1 else next(iter(options), None)
        values = schema.get("enum", [schema["const"]] if "const" in schema else ())
        if not all(isinstance(value, str) for value in values):
            texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
            return {"enum": list(dict.fromkeys(texts))}
        match schema.get("type", "string"):
            case "integer" | "number":
                return {"pattern": _spell_keys(schema)}
            case "boolean":
                return {"enum": ["true", "false"]}
            case "string":
                return schema
            case _:
                return None


def _rank_member(member: tuple[str, Any]) -> int:
    return _RANKS.get(member[0], 0)


def _without_title(made: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    if made.get("title") == getattr(schema.get("cls"), "__name__", None):
        made.pop("title", None)
    return made


def _tighten(made: dict[str, Any], limit: int) -> None:
    if max(made.get("minimum", -inf), made.get("exclusiveMinimum", -inf)) <= -limit:
        made.pop("minimum", None)
        made["exclusiveMinimum"] = -limit
    if min(made.get("maximum", inf), made.get("exclusiveMaximum", inf)) >= limit:
        made.pop("maximum", None)
        made["exclusiveMaximum"] = limit


def _choose_format(
    schema: Mapping[str, Any], aware: str, *, naive: str, either: str
) -> dict[str, Any]:
    """Returns the format of a time by whether it must, must not or may have a zone."""
    zone = schema.get("tz_constraint")
    names = {None: either, "naive": naive}
    return {"type": "string", "format": names.get(zone, aware), **_list_time_bounds(schema)}


def _list_time_bounds(schema: Mapping[str, Any]) -> dict[str, str]:
    bounds: dict[str, str] = {}
    for key, name in _BOUNDS.items():
        if schema.get(key) is not None:
            bounds[f"format{name[0].upper()}{name[1:]}"] = schema[key].isoformat()
    if (side := schema.get("now_op")) is not None:
        bounds[_NOW_BOUNDS[side]] = NOW
    return bounds


def _spell_durations(bounds: Mapping[str, timedelta]) -> str:
    options: list[str] = []
    for form, seconds in _UNITS.items():
        limits: dict[str, float] = {"minimum": 0}
        for key, limit in bounds.items():
            limits[_BOUNDS[key]] = limit.total_seconds() / seconds
        if (numbers := express_range(limits, integer=True)) is not None:
            options.append(form.format(f"({numbers})"))
    return f"^({'|'.join(options) or '[]'})$"


def _spell_address(schemes: Iterable[str]) -> str:
    names = "|".join(scheme.replace("+", r"\+") for scheme in schemes)
    if names == "file":
        return r"^file:///[\w.~-]{1,60}(/[\w.~-]{1,60}){0,9}$"
    number = r"(1\d\d|[1-9]?\d)"
    host = rf"([a-z]\w{{0,30}}([.-][a-z]\w{{0,30}}){{0,5}}|{number}(\.{number}){{3}})"
    port = r"(:([1-5]\d{4}|[1-9]\d{0,3}))?"
    user = r"([\w.~-]{1,30}(:[\w.~-]{1,30})?@)?"
    return rf"^({names})://{user}{host}{port}(/[\w.~-]{{0,60}})?(\?[\w=&.~-]{{0,99}})?$"


def _spell_keys(schema: Mapping[str, Any]) -> str:
    """Returns a pattern for numbers as keys; it is short if there are no bounds."""
    bounds, places = read_bounds(schema), _MAX_PLACES
    if schema["type"] == "number":
        if not bounds:
            return r"^-?\d{1,15}(\.\d{1,15})?$"
        if (step := bounds.pop("multipleOf", None)) is not None:  # of a Decimal
            places = max(0, -int(Decimal(repr(step)).as_tuple().exponent))
        return f"^({express_range(bounds, integer=False, places=places)})$"
    if bounds not in ({"minimum": 0}, {"exclusiveMinimum": 0}, {}):
        return f"^({express_range(bounds, integer=True)})$"
    sign = "" if bounds else "-?"
    zero = "" if "exclusiveMinimum" in bounds else "0|"
    return rf"^({zero}{sign}[1-9]\d{{0,17}})$"


def explain_kind(error: Exception) -> str:
    """Returns in one line why pydantic cannot describe a type."""
    text = f"{error}"
    if isinstance(error, SchemaError):  # such as that of a pattern, behind all that is around it
        text = re.sub(r"\s+", " ", text.rpartition("SchemaError:")[2]).strip()
    return text.partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0].rstrip(".")
