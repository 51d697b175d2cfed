"""References by `$id` and `$anchor`, made JSON pointers into the one document that there is."""

import json
import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import quote, urljoin

from grammars.schema.nodes import Json
from grammars.schema.subschemas import map_parts

_NAMES = re.compile(r'"(\$?id|\$anchor)"\s*:')
_DYNAMIC = re.compile(r'"\$(dynamicRef|recursiveRef|dynamicAnchor)"\s*:')


def localize(source: Json) -> Json:
    """The document with every reference that leads into it as `#` and a pointer, and without the
    names of its parts; the document itself where it names none, or has references that depend on
    where they are reached from."""
    text = json.dumps(source)
    if not isinstance(source, dict) or not _NAMES.search(text) or _DYNAMIC.search(text):
        return cast(Json, source)
    root = cast(Mapping[str, Json], source)
    names = _Names(root)
    names.collect(root, "", "")
    rewritten = names.rewrite(root, "", "")
    return cast(Json, source) if rewritten == source else rewritten


def stands_alone(root: Json) -> bool:
    """Does nothing count beside a `$ref` in the draft of this document?"""
    draft = str(cast(Json, root).get("$schema", "")) if isinstance(root, dict) else ""
    return re.search(r"/draft-0[3-7]/", draft) is not None


class _Names:
    """The names of the parts of a document: absolute URIs, each with the pointer of its part."""

    def __init__(self, root: Mapping[str, Json]):
        draft = str(root.get("$schema", ""))
        self._id = "id" if re.search(r"/draft-0[34]/", draft) else "$id"
        self._alone = stands_alone(root)
        self.pointers: dict[str, str] = {"": ""}

    def _base(self, flat: Mapping[str, Json], base: str) -> str:
        """The URI that references in this schema are relative to."""
        given = flat.get(self._id)
        if not isinstance(given, str) or given.startswith("#") or self._is_reference(flat):
            return base
        return _join(base, given).partition("#")[0]

    def _is_reference(self, flat: Mapping[str, Json]) -> bool:
        """Does nothing else count here?"""
        return self._alone and "$ref" in flat

    def collect(self, schema: Json, base: str, at: str) -> Json:
        """Notes the names in a schema and below."""
        if isinstance(schema, bool):
            return schema
        flat = cast(Mapping[str, Json], schema)
        inner = self._base(flat, base)
        if inner != base:
            self.pointers.setdefault(inner, at)
        anchors = [flat.get("$anchor")]
        given = flat.get(self._id)
        if isinstance(given, str) and given.startswith("#") and not self._is_reference(flat):
            anchors.append(given[1:])
        for anchor in anchors:
            if isinstance(anchor, str) and anchor:
                self.pointers.setdefault(f"{inner}#{anchor}", at)
        map_parts(flat, lambda part, step: self.collect(part, inner, at + step))
        return flat

    def rewrite(self, schema: Json, base: str, at: str) -> Json:
        """A schema with its references rewritten, and those below."""
        if isinstance(schema, bool):
            return schema
        flat = cast(Mapping[str, Json], schema)
        inner = self._base(flat, base)
        kept: dict[str, Json] = {k: v for k, v in flat.items() if k not in ("$anchor", self._id)}
        if isinstance(reference := flat.get("$ref"), str):
            kept["$ref"] = self._locate(reference, inner)
        rewritten: Json = map_parts(kept, lambda part, step: self.rewrite(part, inner, at + step))
        return rewritten

    def _locate(self, reference: str, base: str) -> str:
        """The reference as a pointer; itself where it leads out of the document, or nowhere."""
        whole = base + reference if reference.startswith("#") else _join(base, reference)
        if whole in self.pointers:
            return "#" + quote(self.pointers[whole], safe="/~$")
        uri, _, fragment = whole.partition("#")
        if uri in self.pointers and (not fragment or fragment.startswith("/")):
            return "#" + quote(self.pointers[uri], safe="/~$") + fragment
        return reference


def _join(base: str, reference: str) -> str:
    """The absolute URI; the reference itself where it is none (`http://[`)."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
