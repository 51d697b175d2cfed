"""Schemas, and what else says what an answer is, that are small to send and large to work on."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, Body, ask_for_call, ask_for_json, ask_for_text

Schema = dict[str, Any]
HASHED = 2**61 - 1
"""Python hashes an integer modulo this number."""
WORDS = [f"{number * 0x9E3779B97F4A7C15 % 2**64:x}" for number in range(40_000)]
"""Texts that have nothing in common."""


def _refer(name: object) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _object(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties], **more}


def _one(schema: Any) -> Schema:
    """An object with this property."""
    return _object({"a": schema})


def double_references(depth: int, width: int = 2) -> Schema:
    """Each definition is the conjunction of the next one with itself."""
    defs: Schema = {f"d{depth}": _one({"type": "integer"})}
    for level in range(depth):
        defs[f"d{level}"] = {"allOf": [_refer(f"d{level + 1}")] * width}
    return {**_refer("d0"), "$defs": defs}


def double_members(depth: int) -> Schema:
    """Each value has two members of the next kind, so that the smallest one has 2^depth."""
    defs: Schema = {f"d{depth}": {"type": "integer"}}
    for level in range(depth):
        inner = _refer(f"d{level + 1}")
        defs[f"d{level}"] = _object({"a": inner, "b": inner})
    return {**_refer("d0"), "$defs": defs}


def complete_graph(count: int) -> Schema:
    """Definitions each of which is the conjunction of all the others."""
    defs: Schema = {}
    for i in range(count):
        parts: list[Any] = [_refer(j) for j in range(count) if j != i]
        defs[str(i)] = {"allOf": [*parts, {"properties": {f"p{i}": {"type": "integer"}}}]}
    return {"type": "object", **_refer(0), "$defs": defs}


def chain_of_conditions(count: int) -> Schema:
    """`if` and `then` about so many keys, each in the `else` of the one before."""
    inner: Schema = {}
    for i in range(count):
        key = f"k{i}"
        inner = {
            "if": {"properties": {key: {"const": i}}, "required": [key]},
            "then": {"properties": {f"t{i}": {"type": "integer"}}, "required": [f"t{i}"]},
            "else": inner,
        }
    return {"type": "object", **inner}


def product_of_alternatives(count: int, width: int = 4) -> Schema:
    """A conjunction of alternatives: width^count combinations."""
    parts: list[Any] = []
    for i in range(count):
        branches: list[Any] = []
        for j in range(width):
            branches.append({"properties": {f"p{i}": {"minimum": j, "type": "integer"}}})
        parts.append({"anyOf": branches})
    return {"type": "object", "allOf": parts}


def nested_negations(depth: int) -> Any:
    """`not` of alternatives of conjunctions of `not`, and so on."""
    inner: Any = {"properties": {"a": {"type": "integer"}}}
    for level in range(depth):
        parts = [inner, {"properties": {f"b{level}": {"minimum": level}}, "required": ["a"]}]
        inner = {"not": {"anyOf" if level % 2 else "allOf": parts}}
    return {"type": "object", "allOf": [inner]}


def nested_minima(depth: int, each: int) -> Any:
    """Lists of so many lists of so many lists."""
    inner: Any = {"type": "integer"}
    for _ in range(depth):
        inner = {"type": "array", "items": inner, "minItems": each}
    return _one(inner)


def many_properties(count: int, inner: Any) -> Schema:
    """An object of so many properties."""
    return {"type": "object", "properties": {f"p{i}": inner for i in range(count)}}


def recursive_alternatives(width: int) -> Schema:
    """Branches that all lead back, so that a validator has width^depth ways through a value."""
    branch = {"properties": {"a": _refer("n")}}
    branches = [{**branch, "required": [f"z{i}"]} for i in range(width)]
    nested: Any = 1
    for _ in range(60):
        nested = {"a": nested}
    properties = {"v": {"allOf": [_refer("n"), {"const": nested}]}}
    return _object(properties, **{"$defs": {"n": {"anyOf": branches}}})


def many_tools(count: int, schema: Any) -> Body:
    """So many tools of the same schema, each with another description."""
    tools: list[Any] = []
    for i in range(count):
        function = {"name": f"f{i}", "parameters": {**schema, "title": str(i)}}
        tools.append({"type": "function", "function": function})
    return {**ask_for_call({}), "tools": tools}


def ambiguous_rules(count: int) -> str:
    """A GBNF grammar in which every rule can be read as any other one."""
    names = " | ".join(f"r{i}" for i in range(count))
    lines = [f"root ::= ({names})*"]
    lines += [f'r{i} ::= {names} | "{"a" * (i + 1)}"' for i in range(count)]
    return "\n".join(lines)


def large_patterns(count: int) -> Schema:
    """Patterns of a dozen characters, each of which an engine makes 10 MB of."""
    members = {
        f"p{i}": {"type": "string", "pattern": rf"\p{{L}}{{1,200}}x{i}"} for i in range(count)
    }
    return _object(members)


def folded_classes(count: int) -> Schema:
    """A pattern of classes, in each of which an engine looks for the other case of all characters,
    3 ms for five of them."""
    classes = "".join(rf"[{chr(0x4E00 + number)}\W]" for number in range(count))
    return _one({"type": "string", "pattern": f"(?i){classes}"})


def _list_minima() -> Iterator[tuple[str, Schema]]:
    integers = {"type": "array", "items": {"type": "integer"}}
    yield "minItems 1e5", _one({**integers, "minItems": 10**5})
    yield "minItems 1e18", _one({**integers, "minItems": 10**18})
    yield "minLength 1e9", _one({"type": "string", "minLength": 10**9})
    yield "minLength 1e8, optional", many_properties(1, {"type": "string", "minLength": 10**8})
    yield "minItems 100, six deep", nested_minima(6, 100)
    yield "minItems 2, 40 deep", nested_minima(40, 2)
    yield "2^40 members", double_members(40)
    yield "minProperties 30 of 60", many_properties(60, {"type": "integer"}) | {"minProperties": 30}
    contains = {"type": "array", "contains": {"type": "integer"}, "minContains": 10**9}
    yield "minContains 1e9", _one(contains)
    yield "maxItems 1e9", _one({**integers, "maxItems": 10**9, "minItems": 10**3})
    deep = {"type": "string", "pattern": "^((((a{1,100}){1,100}){1,100}){1,100}){1,100}$"}
    yield "counts inside counts", _one(deep)


def _list_alternatives() -> Iterator[tuple[str, Schema]]:
    yield "allOf of two references, 40 deep", double_references(40)
    yield "allOf of 50 references, 8 deep", double_references(8, width=50)
    yield "allOf of all others, 12", complete_graph(12)
    yield "40 conditions, nested", chain_of_conditions(40)
    yield "4^12 alternatives", product_of_alternatives(12)
    yield "negations, 40 deep", nested_negations(40)
    yield "recursion with 8 ways", recursive_alternatives(8)


def _list_sizes() -> Iterator[tuple[str, Schema]]:
    yield "enum of 40,000", _one({"enum": WORDS})
    yield "an enum beside an enum", _one({"allOf": [{"enum": WORDS[:9000]}] * 3})
    objects = [{"a": i, "b": [word]} for i, word in enumerate(WORDS[:9000])]
    yield "enum of 9,000 objects", _one({"enum": objects})
    hashed = [number * HASHED + 9 for number in range(30_000)]
    yield "not of 30,000 numbers of one hash", _one({"not": {"enum": hashed}})
    yield "const of 900 kB", _one({"const": "x" * 900_000})
    yield "3,000 properties", many_properties(3000, {"type": "string"})
    unused = {"$defs": {f"d{i}": {"type": "string"} for i in range(25_000)}, "type": "object"}
    yield "25,000 definitions without use", unused
    yield "bound of 4,000 digits", _one({"type": "integer", "minimum": 10**4000})
    small = {"type": "integer", "allOf": [{"multipleOf": 9973 + 2 * i} for i in range(200)]}
    yield "200 divisors", _one(small)
    distinct = {"type": "array", "uniqueItems": True, "items": {"enum": list(range(60))}}
    yield "60 distinct items", _one({**distinct, "minItems": 30})
    yield "100 patterns of 10 MB", large_patterns(100)
    yield "1,000 classes without case", folded_classes(1_000)
    yield "pattern a(a|b){1000}", _one({"pattern": "^(a|b)*a(a|b){1000}$"})
    yield "pattern with look-ahead", _one({"pattern": "^(?=(a+)+b)(a|aa)+$"})
    yield "pattern 5,000 groups deep", _one({"pattern": "(" * 5000 + ")" * 5000})


def _list_others() -> Iterator[Attack]:
    yield Attack("2^40 members, answer", partial(ask_for_json, double_members(40)))
    small_tool = _object({f"p{i}": {"type": "string"} for i in range(20)})
    yield Attack("1,000 tools", partial(many_tools, 1000, small_tool))
    yield Attack("choice of 40,000", partial(ask_for_text, choice=WORDS))
    yield Attack("ambiguous grammar", partial(ask_for_text, grammar=ambiguous_rules(60)))
    yield Attack("regex of 1e9", partial(ask_for_text, regex="a{1000000000}"))
    yield Attack("regex of 40,000 words", partial(ask_for_text, regex="|".join(WORDS)))
    yield Attack("regex of 100,000 quantifiers", partial(ask_for_text, regex="a?" * 100_000))


def _list_all() -> Iterator[Attack]:
    for name, schema in (*_list_minima(), *_list_alternatives(), *_list_sizes()):
        yield Attack(name, partial(ask_for_call, schema))
    yield from _list_others()


ATTACKS = tuple(_list_all())
