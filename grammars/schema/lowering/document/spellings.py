"""Repairs keywords whose value has the wrong type, if its meaning is clear: numbers, booleans and
single names as strings, a type instead of a schema, annotations that are not text. Each function
changes the keywords of one schema and notes what it changed."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

from grammars.schema.json_values import Json
from grammars.schema.lowering.document.type_names import find_type, read_type
from grammars.schema.lowering.keywords import TYPES, as_list
from grammars.schema.subschemas import LISTS, MAPS, is_list, is_object, omit

Note = Callable[[str, str], None]
"""Receives the repaired keyword and the reason."""

_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "minContains", "maxContains",
)  # fmt: skip
_FLAGS = (
    "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems",
    "uniqueItems", "nullable", "required", "exclusiveMinimum", "exclusiveMaximum",
)  # fmt: skip
_ANNOTATIONS: Mapping[str, type] = {
    "title": str, "description": str, "$comment": str, "examples": list, "deprecated": bool,
    "readOnly": bool, "writeOnly": bool,
}  # fmt: skip
_NAMED_PARTS = ("properties", "patternProperties")
_SINGLE_PARTS = ("items", "additionalProperties")
_INTEGER = re.compile("[-+]?[0-9]{1,300}")
_NUMBER = re.compile(r"[-+]?[0-9]{1,300}(\.[0-9]+)?(e[-+]?[0-9]+)?")
_ANCHORS = {r"\A": "^", r"\Z": "$", r"\z": "$"}
_BETWEEN_SLASHES = re.compile(r"/(\^.*\$)/([giu]*)", re.DOTALL)
_NOT_IN_FRAGMENTS = re.compile("%(?![0-9A-Fa-f]{2})|[^-A-Za-z0-9._~!$&'()*+,;=:@/?%\ud800-\udfff]")
"""RFC 3986, section 3.5. Lone surrogates cannot be encoded, and are left to the validator."""
_CLASSES = frozenset([r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"])
# A set that nothing closes goes on to the end: the search does not begin again at each bracket.
_PATTERN_PARTS = re.compile(r"\\.|\[(?:\\.?|[^\]\\])*+(?:\]|\Z)", re.DOTALL)
_SET_PARTS = re.compile(r"\\.|.", re.DOTALL)


def _drop_nulls(flat: dict[str, Json], note: Note) -> None:
    """Drops keywords that are null, which have no effect."""
    for keyword, value in omit(flat, "const", "default", "example").items():
        if value is None:
            del flat[keyword]
            note(keyword, "null has no effect")


def _drop_wrong_annotations(flat: dict[str, Json], note: Note) -> None:
    """Drops annotations of the wrong type, since annotations do not restrict values."""
    for keyword, kind in _ANNOTATIONS.items():
        if keyword in flat and not isinstance(flat[keyword], kind):
            del flat[keyword]
            note(keyword, "of another type than JSON Schema wants, left out")


def _drop_empty_lists(flat: dict[str, Json], note: Note) -> None:
    """Drops empty lists, which serialisers write for unset keywords."""
    for keyword in ("allOf", "anyOf", "oneOf", "items", "type"):
        says_more = keyword in ("allOf", "type") or "type" in flat or "$ref" in flat
        if flat.get(keyword) in ([], "") and says_more and "additionalItems" not in flat:
            del flat[keyword]
            note(keyword, "nothing, and has no effect")


def _read_empty_lists(flat: dict[str, Json], note: Note) -> None:
    """Reads empty lists as empty objects where objects belong: in PHP, both are `array()`."""
    for keyword in (*sorted(MAPS), "additionalProperties"):
        if flat.get(keyword) == []:
            flat[keyword] = {}
            note(keyword, "an empty list is read as {}")
    for keyword in _NAMED_PARTS:
        parts = flat.get(keyword)
        if is_object(parts) and [] in parts.values():
            flat[keyword] = {key: {} if part == [] else part for key, part in parts.items()}
            note(keyword, "empty lists are read as {}")


def _read_scalars(flat: dict[str, Json], note: Note) -> None:
    """Reads numbers and booleans that are written as strings."""
    for keyword in dict.fromkeys((*_NUMBERS, *_COUNTS, *_FLAGS)):
        given = flat.get(keyword)
        if isinstance(given, str):
            read: Json = given
            if keyword in _FLAGS:
                read = read_spelling(given, "boolean")
            if keyword not in _FLAGS or (keyword in _NUMBERS and read == given):
                read = read_spelling(given, "number" if keyword in _NUMBERS else "integer")
            if read != given:
                flat[keyword] = read
                note(keyword, f"{given!r} is read as {read!r}")


def read_spelling(text: str, kind: str) -> Json:
    """Returns the value of this type that a string spells; the string itself if it is not one."""
    plain = text.strip().lower()
    if kind == "boolean":
        return {"true": True, "false": False}.get(plain, text)
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if kind == "number" and _NUMBER.fullmatch(plain) and abs(float(plain)) < float("inf"):
        return float(plain)
    return text


def _list_names(flat: dict[str, Json], note: Note) -> None:
    """Makes a list of a single name: of required keys, and of dependencies in draft 3."""
    required, properties = flat.get("required"), flat.get("properties")
    if isinstance(required, str) and is_object(properties) and required in properties:
        flat["required"] = [required]
        note("required", "one name is read as a list of it")
    dependencies = flat.get("dependencies")
    if is_object(dependencies) and str in map(type, dependencies.values()):
        listed: dict[str, Json] = {}
        for key, needed in dependencies.items():
            listed[key] = [needed] if isinstance(needed, str) else needed
        flat["dependencies"] = listed
        note("dependencies", "one name is read as a list of it")


def _name_types(flat: dict[str, Json], note: Note) -> None:
    """Translates the types of other languages, types in capitals, and type expressions."""
    given = flat.get("type")
    names = as_list(given)
    if given == "enum" and is_list(flat.get("enum")):
        del flat["type"]
        note("type", "'enum' is read as the keyword")
    if str not in map(type, names) or "type" not in flat:
        return
    known = [find_type(name) for name in names]
    if "any" in known:
        del flat["type"]
        note("type", "'any' has no effect")
    elif all(name in (*TYPES, "integer") for name in known):
        distinct = list(dict.fromkeys(known))
        if distinct != names:
            flat["type"] = distinct if isinstance(given, list) else distinct[0]
            note("type", f"{given!r} is read as {flat['type']!r}")
    elif isinstance(given, str):
        _apply_type(flat, given, note)


def _apply_type(flat: dict[str, Json], given: str, note: Note) -> None:
    """Adds the keywords that a type expression stands for, unless the schema has them already."""
    read = read_type(given)
    if read is None or ("anyOf" in read and "anyOf" in flat):
        return
    del flat["type"]
    for keyword, value in read.items():
        flat.setdefault(keyword, value)
    note("type", f"{given!r} is read as {read!r}")


def part_types(flat: dict[str, Json], note: Note) -> None:
    """Moves schemas out of the list of types (draft 3)."""
    given = flat.get("type")
    if not is_list(given) or dict not in map(type, given) or "anyOf" in flat:
        return
    del flat["type"]
    parts: list[Json] = []
    for part in given:
        parts.append({"type": part} if isinstance(part, str) else part)
    flat["anyOf"] = parts
    note("type", "schemas among the types are read as anyOf")


def _name_parts(flat: dict[str, Json], note: Note) -> None:
    """Replaces the name of a type, or null, with a schema."""
    for keyword in _NAMED_PARTS:
        parts = flat.get(keyword)
        if is_object(parts) and not _is_schema(parts):
            read = {key: _read_part(part) for key, part in parts.items()}
            if read != parts:
                flat[keyword] = read
                note(keyword, "names of types are read as schemas")
    for keyword in sorted(LISTS):
        parts = flat.get(keyword)
        if is_list(parts) and str in map(type, parts):
            flat[keyword] = [_read_part(part) for part in parts]
            note(keyword, "names of types are read as schemas")
    for keyword in _SINGLE_PARTS:
        given = flat.get(keyword)
        if isinstance(given, str) and _read_part(given) != given:
            flat[keyword] = _read_part(given)
            note(keyword, "the name of a type is read as a schema")


def _is_schema(parts: Mapping[str, Json]) -> bool:
    """Returns whether a schema, with a type and properties, is in the place of a map of schemas."""
    return isinstance(parts.get("type"), str) and is_object(parts.get("properties"))


def _read_part(part: Json) -> Json:
    if part is None:
        return {}
    if not isinstance(part, str):
        return part
    read = read_type(part)
    return part if read is None else read


def list_first_items(flat: dict[str, Json], note: Note) -> None:
    """Renames `items` as a list to `prefixItems`, its name in draft 2020-12."""
    if not is_list(flat.get("items")) or "prefixItems" in flat:
        return
    flat["prefixItems"] = flat.pop("items")
    if "additionalItems" in flat:
        flat["items"] = flat.pop("additionalItems")
    note("items", "a list, read as prefixItems")


def _repair_pattern(flat: dict[str, Json], note: Note) -> None:
    r"""Replaces Python's and Perl's anchors `\A` and `\Z` in a pattern, and removes JavaScript's
    slashes around it, which would match nothing. A hyphen beside a class (`[\w-.]`) is escaped: it
    cannot be a range, and validators refuse it."""
    pattern = flat.get("pattern")
    if not isinstance(pattern, str):
        return
    mended = _PATTERN_PARTS.sub(lambda part: _ANCHORS.get(part[0], part[0]), pattern)
    if mended != pattern:
        note("pattern", r"\A is read as ^, \Z and \z as $")
    plain = _PATTERN_PARTS.sub(lambda part: _escape_hyphens(part[0]), mended)
    if plain != mended:
        mended = plain
        note("pattern", r"a hyphen beside a class ([\w-.]) is read as the character")
    between = _BETWEEN_SLASHES.fullmatch(mended)
    if between is not None:
        mended = f"(?i){between[1]}" if "i" in between[2] else between[1]
        note("pattern", "the text between the slashes is read as the pattern")
    flat["pattern"] = mended


def _escape_hyphens(part: str) -> str:
    """Escapes the hyphens right after or before a class if this part of a pattern is a set. A
    hyphen at the beginning or the end of a set needs no escape."""
    if not part.startswith("[") or part == "[":
        return part
    parts = _SET_PARTS.findall(part)
    first = 2 if parts[1] == "^" else 1
    for place in range(first + 1, len(parts) - 2):
        if parts[place] == "-" and not _CLASSES.isdisjoint((parts[place - 1], parts[place + 1])):
            parts[place] = r"\-"
    return "".join(parts)


def _quote_reference(flat: dict[str, Json], note: Note) -> None:
    """Percent-encodes the characters of a reference that no URI has: names of definitions such as
    `List<string>` or `Größe`."""
    reference = flat.get("$ref")
    if not isinstance(reference, str):
        return
    document, mark, fragment = reference.partition("#")
    quoted = document + mark + _NOT_IN_FRAGMENTS.sub(lambda found: quote(found[0]), fragment)
    if quoted != reference:
        flat["$ref"] = quoted
        note("$ref", f"characters that no URI has: read as {quoted}")


SPELLINGS: tuple[Callable[[dict[str, Json], Note], None], ...] = (
    _drop_nulls,
    _drop_wrong_annotations,
    _read_empty_lists,
    _read_scalars,
    _list_names,
    part_types,
    _name_types,
    _name_parts,
    _drop_empty_lists,
    _repair_pattern,
    _quote_reference,
)
"""What is repaired in all drafts, in this order."""
