"""Finds the arguments of a tool that need the validator: those with a keyword that the mask cannot
enforce.

Such a value is buffered until it is complete and validated. The report shows which values these
are: a finding under `/properties/KEY` concerns that argument; one in a definition concerns each
argument that can reach the definition; one on the whole object (`not`, `if`, `minProperties`)
concerns the whole call. In unclear cases, the whole call is buffered.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from grammars.errors import SchemaError
from grammars.limits.steps import StepsError, limit_steps, spend
from grammars.schema.json_values import Json
from grammars.schema.nodes import Schema, escape
from grammars.schema.subschemas import (
    DEFINITIONS,
    DYNAMIC_REFERENCES,
    find_origin,
    is_list,
    is_object,
    look_up,
    omit,
)

MAX_STEPS = 100_000
"""The limit for finding these arguments; beyond it, the whole call is buffered."""
_MEMBERS = ("properties", "patternProperties", "additionalProperties")
_ELSEWHERE = (*_MEMBERS, *DEFINITIONS)


@dataclass(frozen=True)
class CheckedArguments:
    """The parts of a call that are buffered until they are validated: the whole call, arguments by
    their keys, or all `others` than those that the schema declares."""

    whole: bool = False
    keys: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    others: bool = False

    def __bool__(self) -> bool:
        return self.whole or self.others or bool(self.keys)

    def covers(self, key: str) -> bool:
        return self.whole or key in self.keys or (self.others and key not in self.declared)


def find_checked(schema: Schema) -> CheckedArguments:
    """Returns the parts of a call with this schema that are buffered."""
    found = {finding.pointer for finding in schema.report.checked}
    if not found:
        return CheckedArguments()
    if len(schema.objects) != 1:
        return CheckedArguments(whole=True)
    # A reference may be one that only the validator follows, or data like one.
    with suppress(StepsError, SchemaError), limit_steps(MAX_STEPS):
        return _find_checked(schema, found)
    return CheckedArguments(whole=True)


def _find_checked(schema: Schema, found: set[str]) -> CheckedArguments:
    (object_,) = schema.objects
    keys: set[str] = set()
    reached: set[str] = set()
    for declared in object_.properties:
        pointer = f"/properties/{escape(declared.key)}"
        concerned = _concern(found, pointer, declared.source, schema=schema)
        reached |= concerned
        if concerned:
            keys.add(declared.key)
    rest: set[str] = set()
    for extra in object_.extras:
        for keyword in ("additionalProperties", "patternProperties"):
            rest |= _concern(found, f"/{keyword}", extra.source, schema=schema)
    walk = _walk("", schema.source, schema.root, skipped=_ELSEWHERE)
    level = {find_origin(pointer, schema.origins) for pointer, _ in walk}
    unreached = found - reached - rest
    return CheckedArguments(
        whole=bool(found & level or unreached),
        keys=frozenset(keys),
        declared=frozenset(declared.key for declared in object_.properties),
        others=bool(rest),
    )


def _concern(found: set[str], pointer: str, source: Json, *, schema: Schema) -> set[str]:
    """Returns the findings in the schema at this pointer, and in the schemas that it refers to."""
    tops = [pointer]
    for _, target in _walk(pointer, source, schema.root):
        if target is not None:
            tops.append(find_origin(target, schema.origins))
    prefixes = tuple(f"{top}/" for top in tops)
    return {finding for finding in found if f"{finding}/".startswith(prefixes)}


def _walk(
    pointer: str, source: Json, root: Json, *, skipped: tuple[str, ...] = ()
) -> Iterator[tuple[str, str | None]]:
    """Lists the pointers of a schema, of its parts, and of everything they refer to; each with the
    pointer of its reference's target (None: no reference)."""
    seen: set[str] = set()
    queue = [(pointer, source)]
    while queue:
        spend()
        pointer, part = queue.pop()
        target: str | None = None
        if is_object(part):
            if DYNAMIC_REFERENCES & part.keys():
                raise SchemaError("a dynamic reference", where=pointer)
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                target = unquote(reference[1:])
                queue.append((target, look_up(root, reference, pointer)))
            for key, value in omit(part, *skipped).items():
                queue.append((f"{pointer}/{escape(key)}", value))
        elif is_list(part):
            queue += [(f"{pointer}/{i}", value) for i, value in enumerate(part)]
        yield pointer, target
