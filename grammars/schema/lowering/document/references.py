"""References: turns those by `$id`, `$anchor` and `$dynamicAnchor` (JSON Schema Core, section 8.2)
into JSON pointers into the document.

The target of a dynamic reference is the first schema with its name on the path from the root. The
path begins in the root, so a name that the root's own resource has always means that one; and a
name that only one resource has means it, whatever the path. Other names may mean one schema on one
path and another on the next: then the document is written with a copy of each definition for each
meaning of the names.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin

from grammars.errors import SchemaError
from grammars.limits.steps import WRITTEN, spend
from grammars.schema.json_values import Json, walk_values
from grammars.schema.pointers import escape, unescape
from grammars.schema.subschemas import (
    DEFINITIONS,
    DYNAMIC_REFERENCES,
    LISTS,
    MAPS,
    SINGLES,
    is_list,
    is_object,
    map_parts,
    omit,
)
from grammars.schema.validator import LATEST

_NAMES = re.compile(r'"(\$?id|\$anchor|\$dynamicRef|\$dynamicAnchor|\$recursiveRef)"\s*:')
_DYNAMIC = re.compile(r'"\$(dynamicRef|recursiveRef)"\s*:')
_DRAFT = {"$dynamicRef": "2020-12", "$recursiveRef": "2019-09"}
_ROOT_ANCHOR = "$recursiveAnchor"  # the name by which `$recursiveRef` finds the root of a resource
_MAX_COPIES = 200  # of definitions, for different meanings of names
_SHORT = 256
"""Characters of a name that make a step: most names have fewer, and take none. Each part of a
document has a URI and a pointer, which a long `$id` or key makes long for all parts inside it."""


class _Scope(NamedTuple):
    """What dynamic names mean on a path from the root: by name, the pointer of its schema. Scopes
    with the same meanings have the same number."""

    number: int
    meanings: Mapping[str, str]


class LocalDocument(NamedTuple):
    """A document whose references are pointers, and, by the pointer of each definition in it that
    is a copy, the pointer of the schema in the document as it was."""

    document: Json
    origins: Mapping[str, str]


def localize(source: Json) -> LocalDocument:
    """Writes every reference into the document as `#` and a pointer, and removes the names of its
    parts. If the target of a dynamic reference depends on the path to it, there is a definition for
    each target, and the other definitions are left out. The document is the same object if it names
    no parts, or has a dynamic reference that no pointer can replace: it is in an unknown keyword,
    where the names that it needs are not looked for, or has too many targets. Raises SchemaError if
    a pointer that starts at the `$id` of its part cannot be rewritten, and would be read from the
    root."""
    if not is_object(source) or not _NAMES.search(json.dumps(source)):
        return LocalDocument(source, {})
    names = _Names(source)
    names.collect(source, "", "")
    rewritten = _rewrite(source, names)
    if rewritten is None or is_dynamic(rewritten, names.dynamic):
        _refuse(names.inner_pointers)
        return LocalDocument(source, {})
    _refuse(names.unseen_pointers)
    if rewritten == source:
        return LocalDocument(source, {})
    return LocalDocument(rewritten, names.origins)


def _rewrite(source: Mapping[str, Json], names: "_Names") -> Json:
    """The document with pointers for its references; None if that cannot be written."""
    with suppress(_AmbiguousError):
        return names.rewrite(source, "")
    with suppress(_AmbiguousError):
        return names.rewrite_with_copies(source)
    return None


def _refuse(pointers: Sequence[str]) -> None:
    """Refuses a document if schemas have a pointer that would be read from its root."""
    if pointers:
        message = "a $ref in this part starts at its $id, and cannot be made to start at the root"
        hint = "Remove the $id, and write references that start at the root of the document"
        raise SchemaError(message, where=pointers[0], hint=hint)


def is_dynamic(source: Json, keywords: Collection[str] = DYNAMIC_REFERENCES) -> bool:
    """Returns whether the document has dynamic references (by these keywords), also in unknown
    keywords and in data: a `$ref` may lead there."""
    if not _DYNAMIC.search(json.dumps(source)):
        return False
    return next(_list_texts(source, keywords), None) is not None


def _list_texts(source: Json, keywords: Collection[str]) -> Iterator[str]:
    """Yields the texts of these keywords, wherever they are."""
    for part in filter(is_object, walk_values(source)):
        for keyword in keywords:
            if isinstance(part.get(keyword), str):
                yield part[keyword]


def stands_alone(root: Json) -> bool:
    """Returns whether the draft ignores other keywords next to a `$ref` (drafts 3 to 7)."""
    return re.search(r"/draft-0[3-7]/", find_draft(root)) is not None


def find_draft(root: Json) -> str:
    """Returns the URI of the draft that a document names; "" if it names none."""
    return str(root.get("$schema", "")) if is_object(root) else ""


def find_id_keyword(root: Json) -> str:
    """Returns the keyword for the URI of a part in the document's draft."""
    return "id" if re.search(r"/draft-0[34]/", find_draft(root)) else "$id"


class _AmbiguousError(Exception):
    """The target of a dynamic reference depends on the path to it, or there are too many."""


class _Names:
    """The names of the parts of a document: absolute URIs, with the pointers of the parts."""

    def __init__(self, root: Mapping[str, Json]):
        draft = find_draft(root)
        self._id = find_id_keyword(root)
        self._alone = stands_alone(root)
        self.dynamic = [keyword for keyword in _DRAFT if _DRAFT[keyword] in (draft or LATEST)]
        self.pointers: dict[str, str] = {"": ""}
        self.inner_pointers: list[str] = []  # schemas with a `$ref` that starts at an inner `$id`
        self.unseen_pointers: list[str] = []  # those of them where it is in an unknown keyword
        self._root = self._base(root, "")
        self.origins: dict[str, str] = {}  # pointers of schemas, by those of their copies
        self._dynamic_anchors: dict[str, dict[str, str]] = {}  # by name and base URI
        self._anchors_of: dict[str, dict[str, str]] = {}  # the same by base URI and name
        self._schemas: dict[str, tuple[Json, str]] = {}  # by pointer, with the base URI around them
        self._scopes: dict[frozenset[tuple[str, str]], _Scope] = {}
        self._entered: dict[tuple[int, str], _Scope] = {}  # by the scope around and the base URI
        self._copies: dict[tuple[str, int], str] = {}  # references to copies, by pointer and scope
        self._unwritten: list[tuple[str, str, _Scope]] = []  # names of copies, pointers, scopes

    def _base(self, flat: Mapping[str, Json], base: str) -> str:
        """Returns the base URI for the references in this schema."""
        given = flat.get(self._id)
        if not isinstance(given, str) or given.startswith("#") or self._is_reference(flat):
            return base
        return _join(base, given).partition("#")[0]

    def _is_reference(self, flat: Mapping[str, Json]) -> bool:
        """Returns whether the keywords beside the `$ref` are ignored."""
        return self._alone and "$ref" in flat

    def collect(self, schema: Json, base: str, pointer: str) -> Json:
        """Collects the names in a schema and its subschemas."""
        spend(len(pointer) // _SHORT)
        self._schemas[pointer] = schema, base
        if isinstance(schema, bool):
            return schema
        flat: Mapping[str, Json] = schema
        inner = self._base(flat, base)
        if inner != base:
            self.pointers.setdefault(inner, pointer)
        if inner != self._root:
            self._collect_pointers(flat, pointer)
        anchors = [flat.get("$anchor")]
        given = flat.get(self._id)
        if isinstance(given, str) and given.startswith("#") and not self._is_reference(flat):
            anchors.append(given[1:])  # before draft 2019-09, anchors are ids of this form
        if "$dynamicRef" in self.dynamic:
            anchors.append(flat.get("$dynamicAnchor"))
            self._collect_dynamic(flat.get("$dynamicAnchor"), inner, pointer)
        if flat.get("$recursiveAnchor") is True and self.pointers.get(inner) == pointer:
            self._collect_dynamic(_ROOT_ANCHOR, inner, pointer)
        for anchor in anchors:
            if isinstance(anchor, str) and anchor:
                self.pointers.setdefault(_join_fragment(inner, f"#{anchor}"), pointer)
        map_parts(flat, lambda part, step: self.collect(part, inner, pointer + step))
        return flat

    def _collect_pointers(self, flat: Mapping[str, Json], pointer: str) -> None:
        """Collects the schemas in a part with its own `$id` that have pointers."""
        unseen = omit(flat, "$ref", *MAPS, *LISTS, *SINGLES)
        if any(reference.startswith("#") for reference in _list_texts(unseen, ["$ref"])):
            self.unseen_pointers.append(pointer)
            self.inner_pointers.append(pointer)
        elif str(flat.get("$ref")).startswith("#"):
            self.inner_pointers.append(pointer)

    def _collect_dynamic(self, name: Json, base: str, pointer: str) -> None:
        if isinstance(name, str) and name:
            targets = self._dynamic_anchors.setdefault(name, {})
            self._anchors_of.setdefault(base, {})[name] = targets.setdefault(base, pointer)

    def rewrite(self, schema: Json, base: str, scope: _Scope | None = None) -> Json:
        """Rewrites the references of a schema and its subschemas. With a scope, they lead to copies
        for this scope, and the definitions in the schema are left out. Without one, no dynamic
        reference may have more than one target."""
        if isinstance(schema, bool):
            return schema
        flat: Mapping[str, Json] = schema
        inner = self._base(flat, base)
        kept = omit(flat, "$anchor", "$dynamicAnchor", "$recursiveAnchor", self._id)
        if scope is not None:
            kept = omit(kept, *DEFINITIONS)
            scope = self._enter(scope, inner)
        reference = flat.get("$ref")
        if isinstance(reference, str):
            kept["$ref"] = self._locate(reference, inner, scope)
        kept = map_parts(kept, lambda part, _: self.rewrite(part, inner, scope))
        for keyword in self.dynamic:
            reference = flat.get(keyword)
            conjuncts = kept.get("allOf", [])
            if not isinstance(reference, str) or not is_list(conjuncts):
                continue  # no schema: what validates the document says where
            del kept[keyword]
            target = self._locate_dynamic(reference, inner, keyword, scope)
            if "$ref" in kept:
                kept["allOf"] = [*conjuncts, {"$ref": target}]
            else:
                kept["$ref"] = target
        return kept

    def rewrite_with_copies(self, source: Mapping[str, Json]) -> Json:
        """Rewrites the document, with a copy of each definition for each scope that reaches it."""
        outermost = self._enter(self._intern({}), self._root)
        self._copies["", outermost.number] = "#"
        document = self.rewrite(source, "", outermost)
        definitions: dict[str, Json] = {}
        while self._unwritten:
            name, pointer, scope = self._unwritten.pop()
            schema, base = self._schemas[pointer]
            self.origins[f"/$defs/{escape(name)}"] = pointer
            own = omit(schema, *DEFINITIONS) if is_object(schema) else schema
            spend(len(json.dumps(own)) // WRITTEN)  # its data is read again in each copy
            definitions[name] = self.rewrite(schema, base, scope)
        return {**document, "$defs": definitions}

    def _enter(self, scope: _Scope, base: str) -> _Scope:
        """Returns the scope in this resource; names that were met before keep their meaning."""
        key = scope.number, base
        if key not in self._entered:
            self._entered[key] = self._intern({**self._anchors_of.get(base, {}), **scope.meanings})
        return self._entered[key]

    def _intern(self, meanings: Mapping[str, str]) -> _Scope:
        spend(1 + len(meanings))
        return self._scopes.setdefault(
            frozenset(meanings.items()), _Scope(len(self._scopes), meanings)
        )

    def _copy(self, pointer: str, scope: _Scope) -> str:
        if pointer not in self._schemas:
            raise _AmbiguousError
        schema, base = self._schemas[pointer]
        entered = self._enter(scope, self._base(schema, base) if is_object(schema) else base)
        identity = pointer, entered.number
        if identity not in self._copies:
            number = len(self._copies)
            if number > _MAX_COPIES:
                raise _AmbiguousError
            name = f"{unescape(pointer.rpartition('/')[2])}-{number}"
            self._copies[identity] = write_pointer(f"/$defs/{escape(name)}")
            self._unwritten.append((name, pointer, entered))
        return self._copies[identity]

    def _locate_dynamic(self, reference: str, base: str, keyword: str, scope: _Scope | None) -> str:
        """Returns a dynamic reference as a pointer. It is an ordinary one if it does not lead to a
        dynamic anchor first."""
        resource, _, name = _resolve(reference, base).partition("#")
        if keyword == "$recursiveRef":
            name = _ROOT_ANCHOR
        targets = self._dynamic_anchors.get(name, {})
        if self.pointers.get(f"{resource}#{name}", targets.get(resource)) != targets.get(resource):
            targets = {}  # an ordinary anchor has the name here
        if resource not in targets:
            return self._locate(reference, base, scope)
        if scope is not None:
            return self._copy(scope.meanings.get(name, targets[resource]), scope)
        if self._root in targets:
            return write_pointer(targets[self._root])
        if len(targets) > 1:
            raise _AmbiguousError
        return write_pointer(targets[resource])

    def _locate(self, reference: str, base: str, scope: _Scope | None) -> str:
        """Returns the reference as a pointer; unchanged if it leads out of the document, or
        nowhere."""
        whole = _resolve(reference, base)
        if whole in self.pointers:
            found = write_pointer(self.pointers[whole])
        else:
            uri, _, fragment = whole.partition("#")
            if uri not in self.pointers or (fragment and not fragment.startswith("/")):
                return reference
            found = write_pointer(self.pointers[uri]) + fragment
        return found if scope is None else self._copy(unquote(found[1:]), scope)


def _resolve(reference: str, base: str) -> str:
    """Returns the absolute URI of a reference in a schema with this base URI."""
    if reference.startswith("#"):
        return _join_fragment(base, reference)
    return _join(base, reference)


def _join_fragment(base: str, fragment: str) -> str:
    """Returns the absolute URI with this fragment, which begins with a number sign."""
    spend((len(base) + len(fragment)) // _SHORT)
    return base + fragment


def write_pointer(pointer: str) -> str:
    """Writes a JSON pointer as a URI fragment (RFC 6901, section 6)."""
    return "#" + quote(pointer, safe="/~$")


def _join(base: str, reference: str) -> str:
    """Returns the absolute URI; the reference itself if it is not a valid URI (`http://[`)."""
    spend((len(base) + len(reference)) // _SHORT)
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
