"""Schemas, and what else says what an answer is, that are small to send and large to work on."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import (
    REFUSED,
    Attack,
    Body,
    ask_for_call,
    ask_for_json,
    ask_for_text,
)

Schema = dict[str, Any]


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


def double_alternatives(depth: int, keyword: str) -> Schema:
    """Each definition has the next one in two branches, which are told apart by nothing."""
    defs: Schema = {f"d{depth}": _one({"type": "integer"})}
    for level in range(depth):
        inner = _refer(f"d{level + 1}")
        defs[f"d{level}"] = {keyword: [inner, {"allOf": [inner, {"minProperties": 1}]}]}
    return _one(_refer("d0")) | {"$defs": defs}


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


def growing_conjunctions(count: int) -> Schema:
    """Recursive definitions whose conjunctions are the subsets of a set."""
    rng = random.Random(1)
    defs: Schema = {}
    for i in range(count):
        properties: Schema = {}
        for key in "abc":
            chosen = rng.sample(range(count), 2)
            properties[key] = {"allOf": [_refer(j) for j in chosen]}
        defs[str(i)] = {"type": "object", "properties": properties}
    return {"allOf": [_refer(0), _refer(1)], "$defs": defs}


def chain_of_references(count: int) -> Schema:
    """Each definition refers to the next one."""
    defs: Schema = {str(i): _refer(i + 1) for i in range(count)}
    defs[str(count)] = {"type": "integer"}
    return _one(_refer(0)) | {"$defs": defs}


def chain_of_objects(count: int) -> Schema:
    """A value nested so deeply, through references."""
    defs: Schema = {str(i): _one(_refer(i + 1)) for i in range(count)}
    defs[str(count)] = {"type": "integer"}
    return {**_refer(0), "$defs": defs}


def all_refer_to_all(count: int) -> Schema:
    """Every definition has every other one as an alternative."""
    defs: Schema = {}
    for i in range(count):
        defs[str(i)] = {"anyOf": [_one(_refer(j)) for j in range(count)]}
    defs["0"]["anyOf"].append({"type": "null"})
    return _one(_refer(0)) | {"$defs": defs}


def chain_of_conditions(count: int, *, nested: bool = False) -> Schema:
    """`if` and `then` about so many keys; with `nested`, each in the `else` of the one before."""
    conditions: list[Any] = []
    for i in range(count):
        key = f"k{i}"
        condition: Schema = {
            "if": {"properties": {key: {"const": i}}, "required": [key]},
            "then": {"properties": {f"t{i}": {"type": "integer"}}, "required": [f"t{i}"]},
        }
        conditions.append(condition)
    schema: Schema = {"type": "object"}
    if not nested:
        return {**schema, "allOf": conditions}
    inner: Schema = {}
    for condition in reversed(conditions):
        inner = {**condition, "else": inner}
    return {**schema, **inner}


def product_of_alternatives(count: int, keyword: str = "anyOf", width: int = 4) -> Schema:
    """A conjunction of alternatives: width^count combinations."""
    parts: list[Any] = []
    for i in range(count):
        branches: list[Any] = []
        for j in range(width):
            branches.append({"properties": {f"p{i}": {"minimum": j, "type": "integer"}}})
        parts.append({keyword: branches})
    return {"type": "object", "allOf": parts}


def nest(keyword: str, depth: int, inner: Any = True, *, listed: bool = False) -> Any:
    """A keyword inside itself."""
    for _ in range(depth):
        inner = {keyword: [inner] if listed else inner}
    return inner


def nested_one_of(depth: int, width: int) -> Any:
    """`oneOf` of objects that overlap, inside each other."""
    inner: Any = {"type": "integer"}
    for level in range(depth):
        branches = [{"properties": {f"k{level}_{i}": inner}} for i in range(width)]
        inner = {"type": "object", "oneOf": branches}
    return _one(inner)


def nested_negations(depth: int) -> Any:
    """`not` of alternatives of conjunctions of `not`, and so on."""
    inner: Any = {"properties": {"a": {"type": "integer"}}}
    for level in range(depth):
        parts = [inner, {"properties": {f"b{level}": {"minimum": level}}, "required": ["a"]}]
        inner = {"not": {"anyOf" if level % 2 else "allOf": parts}}
    return {"type": "object", "allOf": [inner]}


def nested_minima(depth: int, each: int, keyword: str = "minItems") -> Any:
    """Lists of so many lists of so many lists."""
    inner: Any = {"type": "integer"}
    for _ in range(depth):
        inner = {"type": "array", "items": inner, keyword: each}
    return _one(inner)


def dependent_schemas(count: int) -> Schema:
    """Every key brings a schema that asks for all the others."""
    properties: Schema = {f"k{i}": {"type": "integer"} for i in range(count)}
    dependent: Schema = {}
    for i in range(count):
        others = {f"k{j}": {"minimum": i} for j in range(count) if j != i}
        dependent[f"k{i}"] = {"properties": others}
    return {"type": "object", "properties": properties, "dependentSchemas": dependent}


def overlapping_patterns(count: int) -> Schema:
    """`patternProperties` all of which overlap."""
    patterns = {f"^[a-z]*{chr(97 + i % 26)}[a-z]{{{i}}}": {"minimum": i} for i in range(count)}
    return {"type": "object", "patternProperties": patterns, "additionalProperties": False}


def unevaluated(depth: int) -> Schema:
    """`unevaluatedProperties` around alternatives that have it, too."""
    inner: Schema = {"properties": {"a": {"type": "integer"}}}
    for level in range(depth):
        branches = [inner, {"properties": {f"b{level}": True}}, {"required": ["c"]}]
        inner = {"type": "object", "anyOf": branches, "unevaluatedProperties": False}
    return inner


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


def nested_json(depth: int) -> Any:
    """A value nested so deeply."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def many_tools(count: int, schema: Any) -> Body:
    """So many tools of the same schema, each with another description."""
    tools: list[Any] = []
    for i in range(count):
        function = {"name": f"f{i}", "parameters": {**schema, "title": str(i)}}
        tools.append({"type": "function", "function": function})
    return {**ask_for_call({}), "tools": tools}


def many_rules(count: int) -> str:
    """A GBNF grammar of so many rules."""
    lines = ["root ::= r0"]
    lines += [f'r{i} ::= "a" r{i + 1} | "b"' for i in range(count)]
    return "\n".join([*lines, f'r{count} ::= "c"'])


def ambiguous_rules(count: int) -> str:
    """A GBNF grammar in which every rule can be read as any other one."""
    names = " | ".join(f"r{i}" for i in range(count))
    lines = [f"root ::= ({names})*"]
    lines += [f'r{i} ::= {names} | "{"a" * (i + 1)}"' for i in range(count)]
    return "\n".join(lines)


def _both(name: str, schema: Any) -> Iterator[Attack]:
    """The schema as that of a tool, and as that of an answer."""
    yield Attack(name, partial(ask_for_call, schema))
    yield Attack(f"{name}, answer", partial(ask_for_json, schema), is_variant=True)


def _list_minima() -> Iterator[Attack]:
    integers = {"type": "array", "items": {"type": "integer"}}
    for exponent in (4, 5, 6, 9, 18):
        schema = _one({**integers, "minItems": 10**exponent})
        statuses = REFUSED if exponent > 4 else (200, 400)
        yield Attack(f"minItems 1e{exponent}", partial(ask_for_call, schema), statuses=statuses)
    yield Attack("minItems 1e9, answer", partial(ask_for_json, {**integers, "minItems": 10**9}))
    for exponent in (5, 7, 9, 12, 300):
        schema = _one({"type": "string", "minLength": 10**exponent})
        yield Attack(f"minLength 1e{exponent}", partial(ask_for_call, schema), statuses=REFUSED)
    yield Attack(
        "minLength 1e8, answer", partial(ask_for_json, {"type": "string", "minLength": 10**8})
    )
    yield Attack(
        "minLength 1e8, optional",
        partial(ask_for_call, many_properties(1, {"type": "string", "minLength": 10**8})),
    )
    yield from _both("minItems 100, six deep", nested_minima(6, 100))
    yield from _both("minItems 2, 40 deep", nested_minima(40, 2))
    yield from _both("2^40 members", double_members(40))
    declared = many_properties(60, {"type": "integer"})
    yield from _both("minProperties 30 of 60", {**declared, "minProperties": 30})
    contains = {"type": "array", "contains": {"type": "integer"}, "minContains": 10**9}
    yield from _both("minContains 1e9", _one(contains))
    words = {"type": "object", "patternProperties": {"^a": True}, "minProperties": 10**6}
    yield from _both("minProperties 1e6 of a pattern", words)
    yield from _both("maxItems 1e9", _one({**integers, "maxItems": 10**9, "minItems": 10**3}))
    yield from _both("maxLength 1e9", _one({"type": "string", "maxLength": 10**9}))
    pattern = {"type": "string", "pattern": "^([a-z]{1,9}-){100000}$"}
    yield from _both("pattern of 1e5 words", _one(pattern))
    hashed = [number * (2**61 - 1) + 9 for number in range(30_000)]
    yield Attack(
        "not of 30,000 numbers of one hash", partial(ask_for_json, _one({"not": {"enum": hashed}}))
    )
    yield Attack(
        "const of 30,000 numbers",
        partial(ask_for_json, _one({"const": hashed, "uniqueItems": True})),
    )
    deep = {"type": "string", "pattern": "^((((a{1,100}){1,100}){1,100}){1,100}){1,100}$"}
    yield from _both("counts inside counts", _one(deep))


def _list_alternatives() -> Iterator[Attack]:
    yield from _both("allOf of two references, 16 deep", double_references(16))
    yield from _both("allOf of two references, 40 deep", double_references(40))
    yield from _both("allOf of 50 references, 8 deep", double_references(8, width=50))
    yield from _both("anyOf of two references, 30 deep", double_alternatives(30, "anyOf"))
    yield from _both("oneOf of two references, 30 deep", double_alternatives(30, "oneOf"))
    yield from _both("allOf of all others, 12", complete_graph(12))
    yield from _both("conjunctions of subsets, 24", growing_conjunctions(24))
    yield from _both("3,000 references in a row", chain_of_references(3000))
    yield from _both("2,000 objects in each other", chain_of_objects(2000))
    yield from _both("100 definitions that refer to all", all_refer_to_all(100))
    yield from _both("12 conditions", chain_of_conditions(12))
    yield from _both("60 conditions", chain_of_conditions(60))
    yield from _both("40 conditions, nested", chain_of_conditions(40, nested=True))
    yield from _both("4^12 alternatives", product_of_alternatives(12))
    yield from _both("4^12 alternatives of oneOf", product_of_alternatives(12, "oneOf"))
    yield from _both("oneOf nested, 6 of 4", nested_one_of(6, 4))
    yield from _both("negations, 40 deep", nested_negations(40))
    yield from _both("not, 400 deep", _one(nest("not", 400, {"type": "integer"})))
    yield from _both("if, 200 deep", _one({"if": nest("if", 200), "then": False, "else": True}))
    yield from _both("anyOf, 300 deep", _one(nest("anyOf", 300, {"type": "null"}, listed=True)))
    yield from _both("items, 400 deep", _one(nest("items", 400, {"type": "null"})))
    yield from _both("40 dependent schemas", dependent_schemas(40))
    yield from _both("40 overlapping patterns", overlapping_patterns(40))
    yield from _both("unevaluated, 8 deep", unevaluated(8))
    yield from _both("recursion with 8 ways", recursive_alternatives(8))


def large_patterns(count: int, start: str = r"\p{L}{1,200}") -> Schema:
    """Patterns of a dozen characters, each of which an engine makes 10 MB of."""
    members = {f"p{i}": {"type": "string", "pattern": f"{start}x{i}"} for i in range(count)}
    return _object(members)


def folded_classes(count: int) -> Schema:
    """A pattern of classes, in each of which an engine looks for the other case of all characters,
    3 ms for five of them."""
    classes = "".join(rf"[{chr(0x4E00 + number)}\W]" for number in range(count))
    return _one({"type": "string", "pattern": f"(?i){classes}"})


def long_class(count: int) -> Schema:
    """A pattern with very many ranges of characters, counted."""
    characters = "".join(chr(0x4E00 + 2 * number) for number in range(9_000))
    return _one({"type": "string", "pattern": f"[{characters}]{{1,{count}}}"})


def _list_sizes() -> Iterator[Attack]:
    rng = random.Random(0)
    words = [f"{rng.getrandbits(64):x}" for _ in range(40_000)]
    yield from _both("enum of 40,000", _one({"enum": words}))
    yield from _both("enum of 9,000", _one({"enum": words[:9000]}))
    yield from _both("an enum beside an enum", _one({"allOf": [{"enum": words[:9000]}] * 3}))
    objects = [{"a": i, "b": [word]} for i, word in enumerate(words[:9000])]
    yield from _both("enum of 9,000 objects", _one({"enum": objects}))
    yield from _both("const of 900 kB", _one({"const": "x" * 900_000}))
    yield from _both("const, 200 deep", _one({"const": nested_json(200)}))
    yield from _both("3,000 properties", many_properties(3000, {"type": "string"}))
    yield from _both("500 patterns", many_properties(500, {"pattern": "^(a{1,900}b){1,900}$"}))
    unused = {"$defs": {f"d{i}": {"type": "string"} for i in range(25_000)}, "type": "object"}
    yield from _both("25,000 definitions without use", unused)
    yield from _both("9,000 required", {"type": "object", "required": words[:9000]})
    yield from _both("bound of 4,000 digits", _one({"type": "integer", "minimum": 10**4000}))
    yield from _both("multipleOf 1e-300", _one({"type": "number", "multipleOf": 1e-300}))
    small = {"type": "integer", "allOf": [{"multipleOf": 9973 + 2 * i} for i in range(200)]}
    yield from _both("200 divisors", _one(small))
    distinct = {"type": "array", "uniqueItems": True, "items": {"enum": list(range(60))}}
    yield from _both("60 distinct items", _one({**distinct, "minItems": 30}))
    yield from _both("100 patterns of 10 MB", large_patterns(100))
    yield from _both("100 patterns, verbose", large_patterns(100, r"(?x)\p{L} {1,200}"))
    yield from _both("100 patterns, brackets", large_patterns(100, r"[]\p{L}]{200}"))
    yield from _both("100 patterns, look-ahead", large_patterns(100, r"(?=.)\w{200}"))
    yield from _both("1,000 classes without case", folded_classes(1_000))
    yield from _both("9,000 characters, counted", long_class(5_000))
    names = {"type": "object", "propertyNames": {"pattern": "^(a|b)*a(a|b){12}$"}}
    yield from _both("propertyNames of 2^12 states", {**names, "minProperties": 9})
    yield from _both("pattern a(a|b){1000}", _one({"pattern": "^(a|b)*a(a|b){1000}$"}))
    yield from _both("pattern (a+)+$", _one({"pattern": "^((a+)+)+$", "minLength": 30}))
    yield from _both("pattern with look-ahead", _one({"pattern": "^(?=(a+)+b)(a|aa)+$"}))
    yield from _both("pattern of letters", _one({"pattern": r"^\p{L}{1,3000}\w{1,3000}$"}))
    yield from _both("pattern 5,000 groups deep", _one({"pattern": "(" * 5000 + ")" * 5000}))
    small_tool = _object({f"p{i}": {"type": "string"} for i in range(20)})
    yield Attack("1,000 tools", partial(many_tools, 1000, small_tool))
    yield Attack("choice of 50,000", lambda: ask_for_text(choice=words + words[:10_000]))
    yield Attack(
        "choice of 49,000 others", lambda: ask_for_text(choice=[f"v{i}" for i in range(49_000)])
    )
    yield Attack("long choices", lambda: ask_for_text(choice=[w * 6 for w in words[:9900]]))
    branches = " | ".join(f'"{word}"' for word in words)
    yield Attack("grammar of 40,000", lambda: ask_for_text(grammar=f"root ::= {branches}"))
    yield Attack("grammar of 20,000 rules", lambda: ask_for_text(grammar=many_rules(20_000)))
    yield Attack("ambiguous grammar", lambda: ask_for_text(grammar=ambiguous_rules(60)))
    yield Attack("grammar without end", lambda: ask_for_text(grammar='root ::= "a" root'))
    yield Attack("regex of 1e9", lambda: ask_for_text(regex="a{1000000000}"))
    yield Attack("regex of nested counts", lambda: ask_for_text(regex="((a{1,999}){1,999}){1,999}"))
    yield Attack("regex of 5,000 groups", lambda: ask_for_text(regex="(" * 5000 + ")" * 5000))
    yield Attack("regex of 40,000 words", lambda: ask_for_text(regex="|".join(words)))
    yield Attack(
        "regex of 100,000 quantifiers", lambda: ask_for_text(regex="a?" * 100_000), statuses=REFUSED
    )
    yield Attack(
        "regex of a lone surrogate", lambda: ask_for_text(regex="\ud800"), statuses=REFUSED
    )


ATTACKS = (*_list_minima(), *_list_alternatives(), *_list_sizes())
