"""A schema document as a whole: is it one, and where do its references lead?"""

import re
from functools import cache
from typing import Any, cast
from urllib.parse import unquote

import jsonschema_rs

from grammars.errors import SchemaError
from grammars.lowering.document.references import localize
from grammars.lowering.document.repairs import repair
from grammars.schema.nodes import Finding, Json, escape, make_validator
from grammars.schema.subschemas import LISTS, MAPS, SINGLES

_HINT = "Use a local reference such as #/$defs/Name"
_TUPLES = "http://json-schema.org/draft-07/schema#"
"""The dialect of documents that name none and are no schemas of 2020-12: `items` as a list."""

_INDEX = re.compile("0|[1-9][0-9]{0,8}")


def read_document(source: Json) -> tuple[Json, tuple[Finding, ...], SchemaError | None]:
    """The document as it is meant, with references that are pointers; what was repaired; and why
    it is no JSON Schema, if it is none."""
    meant, repaired = repair(source)
    document = localize(meant)
    problem = find_problem(document)
    if problem is not None and isinstance(document, dict) and "$schema" not in document:
        old: Json = {"$schema": _TUPLES, **cast(dict[str, Json], document)}
        if find_problem(old) is None:
            reason = "none, and no schema of 2020-12: read as draft 7"
            return old, (*repaired, Finding("", "$schema", reason)), None
    return cast(Json, document), repaired, problem


def find_problem(source: Json) -> SchemaError | None:
    """Why this is no JSON Schema, if it is none."""
    try:
        make_validator(source, source)
        _know_shapes().validate(source)
    except jsonschema_rs.ValidationError as e:
        where = "".join(f"/{escape(str(step))}" for step in e.instance_path)
        return SchemaError(f"not a JSON Schema: {e.message}", where=where)
    except (jsonschema_rs.ReferencingError, ValueError) as e:
        return SchemaError(f"not a JSON Schema: {e}", where="")
    return None


@cache
def _know_shapes() -> Any:
    """What keywords have to be in every draft: they are read in drafts that do not know them, too,
    where the validator lets anything stand."""
    part: Json = {"$ref": "#"}
    names: Json = {"type": "array", "items": {"type": "string"}}
    known: dict[str, Json] = {
        **dict.fromkeys(SINGLES - {"items"}, part),
        **{key: {"type": "array", "items": part} for key in LISTS - {"items"}},
        **{key: {"additionalProperties": part} for key in MAPS - {"dependencies"}},
        "dependentSchemas": {"type": "object", "additionalProperties": part},
        "dependentRequired": {"type": "object", "additionalProperties": names},
        **{key: {"type": "integer", "minimum": 0} for key in ("minContains", "maxContains")},
    }
    return jsonschema_rs.validator_for({"type": ["object", "boolean"], "properties": known})


def look_up(root: Json, pointer: Json, at: str) -> Json:
    """What a local `$ref` refers to.

    Args:
        root: the document.
        pointer: the value of `$ref`.
        at: the JSON pointer of the schema that it stands in, for the error.

    Raises:
        SchemaError: it is not local, or leads nowhere.
    """
    where = f"{at}/$ref"
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        raise SchemaError(f"$ref {pointer!r} is not local", where=where, hint=_HINT)
    if pointer != "#" and not pointer.startswith("#/"):
        raise SchemaError(f"$ref {pointer!r} is an anchor", where=where, hint=_HINT)
    place: Json = root
    for step in unquote(pointer[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        index = int(step) if _INDEX.fullmatch(step) else None
        if isinstance(place, list) and index is not None and index < len(cast(list[Json], place)):
            place = cast(Json, place[int(step)])
        elif isinstance(place, dict) and step in place:
            place = cast(Json, place[step])
        else:
            raise SchemaError(f"$ref {pointer!r} leads nowhere", where=where, hint=_HINT)
    return place
