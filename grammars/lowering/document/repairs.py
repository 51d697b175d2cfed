"""Schemas that contradict themselves or their dialect although it is plain what they mean.

A repair changes what the schema admits, for the mask and for the validator alike, so each is
reported. What may be meant in two ways is left as it is, and refused where it is no JSON Schema.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import cast

from grammars.lowering.keywords import TYPES
from grammars.schema.nodes import Finding, Json
from grammars.schema.subschemas import map_parts

_ALIASES = {
    "dict": "object", "map": "object", "list": "array", "tuple": "array", "str": "string",
    "int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean",
    "none": "null",
}  # fmt: skip
"""Names of other languages for the types."""
_DIALECTS = {
    "http://json-schema.org/draft-03/schema": "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-05/schema": "http://json-schema.org/draft-04/schema#",
}
"""Drafts that the validator does not know, and those that say the same."""
_INTEGER = re.compile("[-+]?[0-9]{1,300}")
_NUMBER = re.compile(r"[-+]?[0-9]{1,300}(\.[0-9]+)?(e[-+]?[0-9]+)?")
_READINGS: dict[str, Callable[[str], Json]] = {
    "integer": lambda text: int(text) if _INTEGER.fullmatch(text) else text,
    "number": lambda text: _read_number(text) if _NUMBER.fullmatch(text) else text,
    "boolean": lambda text: {"true": True, "false": False}.get(text, text),
}

_OTHERS = frozenset("enum const allOf anyOf oneOf not if $ref".split())
"""Keywords beside which another type is not enough to admit null."""

Note = Callable[[str, str], None]
"""Takes the keyword that was repaired, and how."""


def repair(source: Json) -> tuple[Json, tuple[Finding, ...]]:
    """The document with its repairs, and what they are; the document itself if there are none."""
    findings: list[Finding] = []
    draft = str(cast(Json, source).get("$schema", "")) if isinstance(source, dict) else ""
    has_flags = re.search(r"/draft-0[3-5]/", draft) is not None

    def visit(schema: Json, at: str) -> Json:
        if not isinstance(schema, dict):
            return schema
        flat = dict(cast(Mapping[str, Json], schema))

        def note(keyword: str, reason: str) -> None:
            findings.append(Finding(at, keyword, reason))

        _drop_nulls(flat, note)
        _name_types(flat, note)
        _lift_required(flat, note, may_be_empty=not has_flags)
        if not has_flags:
            _apply_flags(flat, note)
        _mend_enum(flat, note)
        flat = map_parts(flat, lambda part, step: visit(part, at + step))
        return _add_null(flat, note)

    repaired: Json = visit(source, "")
    if (known := _DIALECTS.get(draft.rstrip("#"))) is not None:
        findings.append(Finding("", "$schema", f"read as {known}"))
        repaired = {**cast(dict[str, Json], repaired), "$schema": known}
    return cast(Json, repaired if findings else source), tuple(findings)


def _drop_nulls(flat: dict[str, Json], note: Note) -> None:
    """A keyword that is null says nothing."""
    empty = [k for k, v in flat.items() if v is None and k not in ("const", "default", "example")]
    for keyword in empty:
        del flat[keyword]
        note(keyword, "null says nothing")


def _name_types(flat: dict[str, Json], note: Note) -> None:
    """Types by their names in other languages, or in capitals."""
    given = flat.get("type")
    names = cast(list[Json], given) if isinstance(given, list) else [given]
    if not any(isinstance(n, str) for n in names):
        return
    known = [_ALIASES.get(n.lower(), n.lower()) if isinstance(n, str) else n for n in names]
    if "any" in known:
        del flat["type"]
        note("type", "'any' says nothing")
    elif known == names:
        return
    elif all(name in (*TYPES, "integer") for name in known):
        named = list(dict.fromkeys(known))
        flat["type"] = named if isinstance(given, list) else named[0]
        note("type", f"{given!r} is read as {flat['type']!r}")


def _lift_required(flat: dict[str, Json], note: Note, *, may_be_empty: bool) -> None:
    """`required: true` in a property, as draft 3 has it; names that are listed twice; an empty list
    where the draft wants names."""
    required = flat.get("required")
    properties = flat.get("properties")
    if isinstance(properties, dict):
        members = cast(dict[str, Json], properties)
        flags = {
            key: cast(Json, v)["required"]
            for key, v in members.items()
            if isinstance(v, dict) and isinstance(cast(Json, v).get("required"), bool)
        }
        if flags:
            listed = cast(list[str], required) if isinstance(required, list) else []
            needed = [*listed, *(key for key, flag in flags.items() if flag)]
            flat["properties"] = {k: _leave_out(v, k in flags) for k, v in members.items()}
            flat |= {"required": needed} if needed else {}
            note("required", f"read off the properties {', '.join(flags)}")
    required = flat.get("required")
    if isinstance(required, bool):
        del flat["required"]
        note("required", "true or false says nothing here")
    elif isinstance(required, list):
        listed = cast(list[Json], required)
        names = [*{json.dumps(name): name for name in listed}.values()]
        if len(names) < len(listed):
            flat["required"] = names
            note("required", "names are listed twice")
        elif not names and not may_be_empty:
            del flat["required"]
            note("required", "an empty list says nothing")


def _leave_out(schema: Json, flagged: bool) -> Json:
    return {k: v for k, v in schema.items() if k != "required"} if flagged else schema


def _apply_flags(flat: dict[str, Json], note: Note) -> None:
    """`exclusiveMinimum: true`, as draft 4 and OpenAPI 3.0 have it."""
    for bound in ("minimum", "maximum"):
        keyword = f"exclusive{bound.title()}"
        flag = flat.get(keyword)
        if not isinstance(flag, bool):
            continue
        del flat[keyword]
        if flag and bound in flat:
            flat[keyword] = flat.pop(bound)
        note(keyword, f"true or false, read as in draft 4: about {bound}")


def _mend_enum(flat: dict[str, Json], note: Note) -> None:
    """Strings in an enum of another type; single items in an enum of lists."""
    options, kind = flat.get("enum"), flat.get("type")
    if not isinstance(options, list) or not options or not isinstance(kind, str):
        return
    values = cast(list[Json], options)
    if kind in _READINGS and all(isinstance(v, str) for v in values):
        flat["enum"] = [_read(kind, v) for v in values]
        if any(isinstance(v, str) for v in flat["enum"]):
            del flat["type"]
        note("enum", f"strings beside the type {kind!r} are read as what they spell")
    elif kind == "array" and not any(isinstance(v, list) for v in values):
        items = flat.get("items", {})
        if isinstance(items, dict):
            flat["items"] = {**cast(dict[str, Json], items), "enum": values}
            del flat["enum"]
            note("enum", "single items beside the type 'array' are read as its items")


def _read(kind: Json, text: str) -> Json:
    """What a string spells; the string itself if that is not of the kind."""
    read = _READINGS[kind](text.strip().lower())
    return text if isinstance(read, str) else read


def _read_number(text: str) -> Json:
    value = int(text) if _INTEGER.fullmatch(text) else float(text)
    return value if abs(value) < float("inf") else text


def _add_null(flat: dict[str, Json], note: Note) -> dict[str, Json]:
    """`nullable: true`, as OpenAPI 3.0 has it."""
    if flat.get("nullable") is not True:
        return flat
    note("nullable", "true, read as in OpenAPI 3.0: null is admitted")
    rest = {k: v for k, v in flat.items() if k != "nullable"}
    kind = rest.get("type")
    if isinstance(kind, str) and not _OTHERS & rest.keys():
        return {**rest, "type": list(dict.fromkeys([kind, "null"]))}
    return {"anyOf": [rest, {"type": "null"}]}
