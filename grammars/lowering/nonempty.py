"""`require_nonempty`: required strings of an object have at least one character, at any depth.

Schemas hardly ever say `minLength: 1`, and `""` is a legal argument (`edit(new_string="")` deletes
text). Where it is not wanted, the lowered schema is tightened, so every format holds it. Optional
strings and elements of lists stay as they are, and so does what admits no other string.
"""

from collections.abc import Mapping
from dataclasses import replace

from grammars.lowering.nodes.inhabitation import prune
from grammars.schema.nodes import (
    Array,
    Constant,
    Node,
    Object,
    Property,
    Reference,
    Schema,
    String,
    Union,
)

_SUFFIX = " (not empty)"


def require_nonempty(schema: Schema) -> Schema:
    """The schema without empty strings where a string is required."""
    definitions = {name: _descend(node) for name, node in schema.definitions.items()}
    definitions |= {name + _SUFFIX: _tighten(node) for name, node in schema.definitions.items()}
    node, definitions = prune(_descend(schema.node), definitions)
    used = _find_used(node, definitions)
    return replace(
        schema, node=node, definitions={n: d for n, d in definitions.items() if n in used}
    )


def _descend(node: Node) -> Node:
    """The same node; the objects in it are tightened."""
    match node:
        case Object(properties, additional, patterned=patterned):
            declared = tuple(map(_require, properties))
            rest = None if additional is None else _descend(additional)
            others = tuple(replace(e, node=_descend(e.node)) for e in patterned)
            return replace(node, properties=declared, additional=rest, patterned=others)
        case Array(prefix, items):
            rest = None if items is None else _descend(items)
            counted = node.contains and replace(
                node.contains,
                matching=tuple(n and _descend(n) for n in node.contains.matching),
                others=tuple(n and _descend(n) for n in node.contains.others),
            )
            return replace(node, prefix=tuple(map(_descend, prefix)), items=rest, contains=counted)
        case Union(branches):
            return Union(tuple(map(_descend, branches)))
        case _:
            return node


def _require(declared: Property) -> Property:
    change = _tighten if declared.required else _descend
    return replace(declared, node=change(declared.node))


def _tighten(node: Node) -> Node:
    """The node without the empty string, if anything else is left."""
    match node:
        case String(shortest, longest):
            return node if longest == 0 else replace(node, min_length=max(1, shortest))
        case Constant(values):
            return Constant(tuple(v for v in values if v != "") or values)
        case Union(branches):
            return Union(tuple(map(_tighten, branches)))
        case Reference(name):
            return Reference(name + _SUFFIX)
        case _:
            return _descend(node)


def _find_used(node: Node, definitions: Mapping[str, Node]) -> set[str]:
    """The definitions that the node can lead to."""
    used, queue = set[str](), [node]
    while queue:
        match node := queue.pop():
            case Reference(name):
                if name not in used:
                    used.add(name)
                    queue.append(definitions[name])
            case Union(branches):
                queue += branches
            case Array(prefix, items) as node:
                queue += [*prefix, *([items] if items else [])]
                if (counted := node.contains) is not None:
                    queue += [n for n in (*counted.matching, *counted.others) if n is not None]
            case Object(properties):
                queue += [part.node for part in (*properties, *node.extras)]
            case _:
                pass
    return used
