"""Repairs schemas that contradict themselves or their dialect, if their meaning is clear.

A repair changes which values the schema allows, for the mask and for the validator, so each repair
is reported. Ambiguous mistakes are not repaired; if the result is not JSON Schema, it is refused.
"""

import json
import re

from grammars.schema.json_values import Json
from grammars.schema.lowering.document.references import find_draft
from grammars.schema.lowering.document.spellings import (
    SPELLINGS,
    Note,
    list_first_items,
    part_types,
    read_spelling,
)
from grammars.schema.lowering.keywords import apply_flags, as_list
from grammars.schema.nodes import Finding
from grammars.schema.subschemas import is_list, is_object, map_parts, omit
from grammars.schema.validator import LATEST

_OTHERS = frozenset("enum const allOf anyOf oneOf not if $ref".split())
"""Keywords that exclude null even if the type allows it."""
_THIRD_FORMATS = {"host-name": "hostname", "ip-address": "ipv4"}
"""Formats of draft 3, by the names that they have had since then."""
_KNOWN_DRAFT = re.compile(
    r"https?://json-schema\.org/(draft-0[467]|draft/20(19-09|20-12))/schema#?|#?"
)
_HOST = r"(?:https?://)?(?:www\.)?json-schema\.org"
_DRAFT_BY_YEAR = re.compile(rf"{_HOST}/(draft/20(?:19-09|20-12))(?:/|$)")
_DRAFT_BY_NUMBER = re.compile(rf"{_HOST}/draft-0([3-7])(?:/|$)")
_SUCCESSORS = {"3": "4", "5": "4"}
_LATEST_EXTENDED = re.compile(
    rf"{_HOST}/(?:schema|v1|draft/next)(?:/|$)|(?:https?://)?spec\.openapis\.org/oas/3\.1(?:/|$)"
)
"""What extends the newest draft: JSON Schema 1 and the schemas of OpenAPI 3.1."""


def repair(source: Json) -> tuple[Json, tuple[Finding, ...]]:
    """Repairs a document; returns it (the same object if nothing changes), and the repairs."""
    findings: list[Finding] = []
    given = find_draft(source)
    draft = read_dialect(given) or given
    has_flags = "/draft-04/" in draft
    is_third = "/draft-03/" in given
    is_latest = "/2020-12" in draft

    def visit(schema: Json, pointer: str) -> Json:
        if not is_object(schema):
            return schema
        flat = dict(schema)

        def note(keyword: str, reason: str) -> None:
            findings.append(Finding(pointer, keyword, reason))

        for mend in SPELLINGS:
            mend(flat, note)
        if is_third:
            _rename_third(flat, note)
        if is_latest:
            list_first_items(flat, note)
        _lift_required(flat, note, may_be_empty=not has_flags)
        if not has_flags:
            for keyword, bound in apply_flags(flat).items():
                note(keyword, f"true or false, read as in draft 4: about {bound}")
        _repair_enum(flat, note)
        _repair_const(flat, note)
        flat = map_parts(flat, lambda part, step: visit(part, pointer + step))
        return _add_null(flat, note)

    repaired = visit(source, "")
    if draft != given:
        findings.append(Finding("", "$schema", f"read as {draft}"))
        repaired = {**repaired, "$schema": draft}
    return repaired if findings else source, tuple(findings)


def read_dialect(given: str) -> str | None:
    """Returns the URI of a draft in its usual spelling; for drafts 3 and 5, which the validator
    does not know, the URI of the next draft. A URI that the validator knows stays as it is. None if
    it means none of the drafts."""
    if _KNOWN_DRAFT.fullmatch(given):
        return given
    plain = given.strip().lower().rstrip("#")
    by_year = _DRAFT_BY_YEAR.match(plain)
    if by_year is not None:
        return f"https://json-schema.org/{by_year[1]}/schema"
    by_number = _DRAFT_BY_NUMBER.match(plain)
    if by_number is not None:
        number = _SUCCESSORS.get(by_number[1], by_number[1])
        return f"http://json-schema.org/draft-0{number}/schema#"
    if _LATEST_EXTENDED.match(plain):
        return LATEST
    return None


def _rename_third(flat: dict[str, Json], note: Note) -> None:
    """Renames keywords of draft 3 (`divisibleBy`, `extends`, `disallow`), and its formats."""
    if "divisibleBy" in flat and "multipleOf" not in flat:
        flat["multipleOf"] = flat.pop("divisibleBy")
        note("divisibleBy", "read as multipleOf")
    if "extends" in flat and "allOf" not in flat:
        flat["allOf"] = as_list(flat.pop("extends"))
        note("extends", "read as allOf")
    if "disallow" in flat and "not" not in flat:
        excluded = {"type": flat.pop("disallow")}
        part_types(excluded, note)
        flat["not"] = excluded
        note("disallow", "read as not")
    name = flat.get("format")
    if isinstance(name, str) and name in _THIRD_FORMATS:
        flat["format"] = _THIRD_FORMATS[name]
        note("format", f"read as {flat['format']}")


def _lift_required(flat: dict[str, Json], note: Note, *, may_be_empty: bool) -> None:
    """Repairs `required`: true in a property (draft 3), repeated names, forbidden empty lists."""
    properties = flat.get("properties")
    if is_object(properties):
        _collect_flags(flat, properties, note)
    required = flat.get("required")
    if isinstance(required, bool):
        del flat["required"]
        note("required", "true or false has no effect here")
    elif is_list(required):
        distinct = {json.dumps(name): name for name in required}
        if len(distinct) < len(required):
            flat["required"] = [*distinct.values()]
            note("required", "names are listed twice")
        elif not required and not may_be_empty:
            del flat["required"]
            note("required", "an empty list has no effect")


def _collect_flags(flat: dict[str, Json], properties: dict[str, Json], note: Note) -> None:
    """Moves `required: true` from the properties to the list of the object."""
    flagged: list[str] = []
    required: list[Json] = []
    if is_list(flat.get("required")):
        required += flat["required"]
    unflagged: dict[str, Json] = {}
    for key, schema in properties.items():
        unflagged[key] = schema
        flag = _read_flag(schema)
        if flag is not None:
            flagged.append(key)
            if flag:
                required.append(key)
            unflagged[key] = omit(schema, "required")
    if flagged:
        flat["properties"] = unflagged
        if required:
            flat["required"] = required
        note("required", f"taken from the properties {', '.join(flagged)}")


def _read_flag(schema: Json) -> bool | None:
    """Returns whether a property is marked as required; None if it is not marked."""
    flag = schema.get("required") if is_object(schema) else None
    if isinstance(flag, str):
        flag = read_spelling(flag, "boolean")
    return flag if isinstance(flag, bool) else None


def _repair_enum(flat: dict[str, Json], note: Note) -> None:
    """Repairs strings in an enum of another type, and single items in an enum of lists."""
    values, kind = flat.get("enum"), flat.get("type")
    if not is_list(values) or not values:
        return
    types = set(map(type, values))
    if kind in ("integer", "number", "boolean") and types == {str}:
        flat["enum"] = [read_spelling(text, kind) for text in values]
        if str in map(type, flat["enum"]):
            del flat["type"]
        note("enum", f"strings beside the type {kind!r} are read as such values")
    elif kind == "array" and list not in types:
        items = flat.get("items", {})
        if is_object(items):
            flat["items"] = {**items, "enum": values}
            del flat["enum"]
            note("enum", "single items beside the type 'array' are read as its items")


def _repair_const(flat: dict[str, Json], note: Note) -> None:
    """Repairs a string that spells a number or boolean, as in an enum."""
    value, kind = flat.get("const"), flat.get("type")
    if kind not in ("integer", "number", "boolean") or not isinstance(value, str):
        return
    read = read_spelling(value, kind)
    if read != value:
        flat["const"] = read
        note("const", f"{value!r} beside the type {kind!r} is read as {read!r}")


def _add_null(flat: dict[str, Json], note: Note) -> dict[str, Json]:
    """Applies `nullable: true` (OpenAPI 3.0)."""
    if flat.get("nullable") is not True:
        return flat
    note("nullable", "true, read as in OpenAPI 3.0: null is allowed")
    rest = omit(flat, "nullable")
    kind = rest.get("type")
    if isinstance(kind, str) and not _OTHERS & rest.keys():
        return {**rest, "type": list(dict.fromkeys([kind, "null"]))}
    return {"anyOf": [rest, {"type": "null"}]}
