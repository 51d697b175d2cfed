"""Grammars and expressions of users that cost more than their size says, in Lark and GBNF."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, ask_for_text


def _list_lark() -> Iterator[tuple[str, str]]:
    words = "|".join(f'"w{number}"' for number in range(60_000))
    yield "60,000 branches without spaces", f"start: {words}"
    yield "an unclosed bracket", f"start: {'(' * 900_000}"
    yield "a repetition of 10^9", 'start: "a"~1..1000000000'
    yield "repetitions in each other", 'start: ((("a"~0..900)~0..900)~0..900)~0..900'
    chain = "\n".join(f"r{number}: r{number + 1} r{number + 1}" for number in range(40))
    yield "a rule that doubles 40 times", f'start: r0\n{chain}\nr40: "a"'
    terminals = "\n".join(f"T{number}: T{number + 1} T{number + 1}" for number in range(40))
    yield "a terminal that doubles 40 times", f'start: T0\n{terminals}\nT40: "a"'
    yield "a terminal in itself", "start: A\nA: B\nB: A"
    yield "special tokens by range", "start: <[0-4000000000]>*"
    yield "all that is not an expression", r"start: /(?s:.*)/ & ~/(?s:.*)a(?s:.{400})/"
    yield "something to ignore", 'start: "a"\n%ignore /(a|b)*a(a|b){18}/'
    characters = "".join(chr(0x4E00 + number % 20_000) for number in range(290_000))
    substring = json.dumps({"substring_chars": characters})
    yield "a substring of 900 kB", f"start: %regex {substring}"
    yield "a header without limits", '%llguidance {"test_trace": true}\nstart: /a*/'
    yield "a NUL", "start: /\0/"


def _list_embedded() -> Iterator[tuple[str, Any]]:
    """Schemas inside of a grammar, which llguidance reads by itself."""
    yield "enum of 40,000", {"enum": [f"w{number}" for number in range(40_000)]}
    yield "an item without end", {"$ref": "#"}
    yield "10^9 items", {"type": "array", "minItems": 10**9, "items": {"const": 1}}
    yield "10^9 characters", {"type": "string", "minLength": 10**9, "maxLength": 10**9}
    yield "a reference elsewhere", {"$ref": "http://127.0.0.1:9/x.json"}
    deep: Any = {"type": "null"}
    for _ in range(10):
        deep = {"anyOf": [deep, {"type": "array", "items": deep}]}
    yield "alternatives in each other", deep
    yield "a bound of 10^300", {"type": "integer", "minimum": 10**300}


def _list_gbnf() -> Iterator[tuple[str, str]]:
    yield "300,000 brackets", f'root ::= {"(" * 300_000}"a"{")" * 300_000}'
    yield "a repetition of 10^9", 'root ::= "a"{1,1000000000}'
    yield "an open text", 'root ::= "' + "\\" * 500_001
    yield "itself", "root ::= root root | root"
    yield "without end", 'root ::= "a" root'


def _list_all() -> Iterator[Attack]:
    for name, grammar in _list_lark():
        yield Attack(f"Lark: {name}", partial(ask_for_text, grammar=grammar))
    for name, schema in _list_embedded():
        grammar = f"start: %json {json.dumps(schema)}"
        yield Attack(f"%json: {name}", partial(ask_for_text, grammar=grammar))
    for name, grammar in _list_gbnf():
        yield Attack(f"GBNF: {name}", partial(ask_for_text, grammar=grammar))


GRAMMARS = tuple(_list_all())
