"""References: turns those by `$id` and `$anchor` (JSON Schema Core, section 8.2) into JSON pointers
into the document."""

import json
import re
from collections.abc import Mapping
from urllib.parse import quote, urljoin

from grammars.schema.nodes import Json
from grammars.schema.subschemas import is_object, map_parts, omit

_NAMES = re.compile(r'"(\$?id|\$anchor)"\s*:')
_DYNAMIC = re.compile(r'"\$(dynamicRef|recursiveRef|dynamicAnchor)"\s*:')


def localize(source: Json) -> Json:
    """Writes every reference into the document as `#` and a pointer, and removes the names of its
    parts. Returns the same object if the document names no parts, or has dynamic references."""
    text = json.dumps(source)
    if not is_object(source) or not _NAMES.search(text) or is_dynamic(source):
        return source
    names = _Names(source)
    names.collect(source, "", "")
    rewritten = names.rewrite(source, "", "")
    if rewritten == source:
        return source
    return rewritten


def is_dynamic(source: Json) -> bool:
    """True if the document has references whose target depends on the path to them."""
    return _DYNAMIC.search(json.dumps(source)) is not None


def stands_alone(root: Json) -> bool:
    """True if the document's draft ignores other keywords next to a `$ref` (drafts 3 to 7)."""
    return re.search(r"/draft-0[3-7]/", find_draft(root)) is not None


def find_draft(root: Json) -> str:
    """The URI of the draft that a document names; "" if it names none."""
    return str(root.get("$schema", "")) if is_object(root) else ""


class _Names:
    """The names of the parts of a document: absolute URIs, with the pointers of the parts."""

    def __init__(self, root: Mapping[str, Json]):
        is_old = re.search(r"/draft-0[34]/", find_draft(root))
        self._id = "id" if is_old else "$id"
        self._alone = stands_alone(root)
        self.pointers: dict[str, str] = {"": ""}

    def _base(self, flat: Mapping[str, Json], base: str) -> str:
        """The base URI for the references in this schema."""
        given = flat.get(self._id)
        if not isinstance(given, str) or given.startswith("#") or self._is_reference(flat):
            return base
        return _join(base, given).partition("#")[0]

    def _is_reference(self, flat: Mapping[str, Json]) -> bool:
        """True if the keywords beside the `$ref` are ignored."""
        return self._alone and "$ref" in flat

    def collect(self, schema: Json, base: str, pointer: str) -> Json:
        """Collects the names in a schema and its subschemas."""
        if isinstance(schema, bool):
            return schema
        flat: Mapping[str, Json] = schema
        inner = self._base(flat, base)
        if inner != base:
            self.pointers.setdefault(inner, pointer)
        anchors = [flat.get("$anchor")]
        given = flat.get(self._id)
        if isinstance(given, str) and given.startswith("#") and not self._is_reference(flat):
            anchors.append(given[1:])  # before draft 2019-09, anchors are ids of this form
        for anchor in anchors:
            if isinstance(anchor, str) and anchor:
                self.pointers.setdefault(f"{inner}#{anchor}", pointer)
        map_parts(flat, lambda part, step: self.collect(part, inner, pointer + step))
        return flat

    def rewrite(self, schema: Json, base: str, pointer: str) -> Json:
        """Rewrites the references of a schema and its subschemas."""
        if isinstance(schema, bool):
            return schema
        flat: Mapping[str, Json] = schema
        inner = self._base(flat, base)
        kept = omit(flat, "$anchor", self._id)
        reference = flat.get("$ref")
        if isinstance(reference, str):
            kept["$ref"] = self._locate(reference, inner)
        return map_parts(kept, lambda part, step: self.rewrite(part, inner, pointer + step))

    def _locate(self, reference: str, base: str) -> str:
        """The reference as a pointer; unchanged if it leads out of the document, or nowhere."""
        whole = _join(base, reference)
        if reference.startswith("#"):
            whole = base + reference
        if whole in self.pointers:
            return "#" + quote(self.pointers[whole], safe="/~$")
        uri, _, fragment = whole.partition("#")
        if uri in self.pointers and (not fragment or fragment.startswith("/")):
            return "#" + quote(self.pointers[uri], safe="/~$") + fragment
        return reference


def _join(base: str, reference: str) -> str:
    """The absolute URI; the reference itself if it is not a valid URI (`http://[`)."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
