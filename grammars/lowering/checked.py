"""Which arguments of a tool need the validator: those with a keyword that the mask cannot enforce.

Such a value is not passed on before it is complete and checked. Which ones they are is read off the
report: a finding under `/properties/KEY` concerns that argument, one in a definition each argument
that can reach it, and one at the level of the whole object (`not`, `if`, `minProperties`) the call.
Where that is not plain, the whole call is held back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from grammars.errors import SchemaError
from grammars.lowering.document.references import look_up
from grammars.schema.nodes import Json, Schema, escape
from grammars.schema.subschemas import is_list, is_object

_MEMBERS = ("properties", "patternProperties", "additionalProperties")
_DYNAMIC = {"$dynamicRef", "$recursiveRef"}
_ELSEWHERE = (*_MEMBERS, "$defs", "definitions")


@dataclass(frozen=True)
class Held:
    """What of a call is held back until it is checked.

    Args:
        whole: all of it.
        keys: these arguments.
        declared: the arguments that the schema knows.
        others: those that it does not know.
    """

    whole: bool = False
    keys: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    others: bool = False

    def __bool__(self) -> bool:
        return self.whole or self.others or bool(self.keys)

    def holds(self, key: str) -> bool:
        """Is this argument held back?"""
        return self.whole or key in self.keys or (self.others and key not in self.declared)


def find_held(schema: Schema) -> Held:
    """What of a call with these arguments is held back."""
    found = {finding.pointer for finding in schema.report.checked}
    if not found:
        return Held()
    if len(schema.objects) != 1:
        return Held(whole=True)
    try:
        return _find_held(schema, found)
    except SchemaError:  # a reference that only a validator follows, or data that look like one
        return Held(whole=True)


def _find_held(schema: Schema, found: set[str]) -> Held:
    (object_,) = schema.objects
    reached = {
        p.key: _concern(found, f"/properties/{escape(p.key)}", p.source, root=schema.root)
        for p in object_.properties
    }
    rest: set[str] = set()
    for extra in object_.extras:
        for keyword in ("additionalProperties", "patternProperties"):
            rest |= _concern(found, f"/{keyword}", extra.source, root=schema.root)
    level = {at for at, _ in _walk("", schema.source, schema.root, skipped=_ELSEWHERE)}
    return Held(
        whole=bool(found & level or found - rest.union(*reached.values())),
        keys=frozenset(key for key, pointers in reached.items() if pointers),
        declared=frozenset(reached),
        others=bool(rest),
    )


def _concern(found: set[str], at: str, source: Json, *, root: Json) -> set[str]:
    """Those of the findings that lie in the schema that stands there, or where it leads."""
    places = [at]
    places += [target for _, target in _walk(at, source, root) if target is not None]
    return {f for f in found if any(f == p or f.startswith(f"{p}/") for p in places)}


def _walk(
    at: str, source: Json, root: Json, *, skipped: tuple[str, ...] = ()
) -> Iterator[tuple[str, str | None]]:
    """The pointer of each part of a schema, and of what its reference leads to (None: it has none),
    and the same of the parts there."""
    seen: set[str] = set()
    queue = [(at, source)]
    while queue:
        place, part = queue.pop()
        target: str | None = None
        if is_object(part):
            if _DYNAMIC & part.keys():
                raise SchemaError("a dynamic reference", where=place)
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                target = reference.removeprefix("#")
                queue.append((target, look_up(root, reference, place)))
            queue += [(f"{place}/{escape(k)}", v) for k, v in part.items() if k not in skipped]
        elif is_list(part):
            queue += [(f"{place}/{i}", v) for i, v in enumerate(part)]
        yield place, target
