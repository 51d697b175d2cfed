"""Grammars and expressions of users that cost more than their size says, in Lark and GBNF."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, ask_for_text


def _lark(name: str, grammar: str, *, is_slow: bool = False) -> Attack:
    """
    Args:
        is_slow: to refuse it takes a second; that is for the benchmark.
    """
    return Attack(name, partial(ask_for_text, grammar=grammar), is_variant=is_slow)


def _embed(name: str, schema: Any, *, is_slow: bool = False) -> Attack:
    """A schema inside of a grammar, which llguidance reads by itself."""
    return _lark(f"%json: {name}", f"start: %json {json.dumps(schema)}", is_slow=is_slow)


def _list_lark() -> Iterator[Attack]:
    words = [f'"w{number}"' for number in range(60_000)]
    yield _lark("60,000 branches without spaces", f"start: {'|'.join(words)}")
    yield _lark("60,000 branches with tabs", "start: " + "\t|\t".join(words), is_slow=True)
    yield _lark("60,000 branches on lines", "start: " + "\n | ".join(words[:15_000]), is_slow=True)
    brackets = "(" * 300_000 + '"a"' + ")" * 300_000
    yield _lark("300,000 brackets", f"start: {brackets}", is_slow=True)
    yield _lark(
        "300,000 square brackets", f'start: {"[" * 300_000}"a"{"]" * 300_000}', is_slow=True
    )
    yield _lark("300,000 question marks", f'start: "a"{"?" * 300_000}', is_slow=True)
    yield _lark("an unclosed bracket", f"start: {'(' * 900_000}", is_slow=True)
    yield _lark("a repetition of 10^9", 'start: "a"~1..1000000000')
    yield _lark("a repetition of 10^30", f'start: "a"{{1,{10**30}}}')
    yield _lark("repetitions in each other", 'start: ((("a"~0..900)~0..900)~0..900)~0..900')
    chain = "\n".join(f"r{number}: r{number + 1} r{number + 1}" for number in range(40))
    yield _lark("a rule that doubles 40 times", f'start: r0\n{chain}\nr40: "a"')
    terminals = "\n".join(f"T{number}: T{number + 1} T{number + 1}" for number in range(40))
    yield _lark(
        "a terminal that doubles 40 times", f'start: T0\n{terminals}\nT40: "a"', is_slow=True
    )
    yield _lark("a terminal in itself", "start: A\nA: B\nB: A")
    yield _lark("special tokens by range", "start: <[0-4000000000]>*")
    yield _lark("a special token by name", "start: <|im_end|> <|im_start|> /.*/")
    yield _lark("all that is not an expression", r"start: /(?s:.*)/ & ~/(?s:.*)a(?s:.{400})/")
    yield _lark("an import of everything", "start: WORD\n%import common.WORD\n" * 3_000)
    yield _lark("something to ignore", 'start: "a"\n%ignore /(a|b)*a(a|b){18}/')
    yield _lark("a lazy text", "start: t\nt[lazy]: /(?s:.*)/ t2\nt2[stop=/(a|b)*a(a|b){18}/]: /x*/")
    yield _lark("a substring of 900 kB", f"start: %regex {json.dumps(_make_substring())}")
    yield _lark("a header without limits", '%llguidance {"test_trace": true}\nstart: /a*/')
    yield _lark("a NUL", "start: /\0/")
    yield _lark("900 kB of comments", "// " + "x" * 900_000 + '\nstart: "a"')


def _make_substring() -> Any:
    return {"substring_chars": "".join(chr(0x4E00 + number % 20_000) for number in range(290_000))}


def _list_embedded() -> Iterator[Attack]:
    words = [f"w{number}" for number in range(40_000)]
    yield _embed("enum of 40,000", {"enum": words}, is_slow=True)
    yield _embed("an item without end", {"$ref": "#"})
    yield _embed("10^9 items", {"type": "array", "minItems": 10**9, "items": {"const": 1}})
    yield _embed("10^9 characters", {"type": "string", "minLength": 10**9, "maxLength": 10**9})
    yield _embed("counts in each other", {"type": "string", "pattern": "^((a{1,999}){1,999}){9}$"})
    yield _embed("a reference elsewhere", {"$ref": "http://127.0.0.1:9/x.json"})
    deep: Any = {"type": "null"}
    for _ in range(100):
        deep = {"anyOf": [deep, {"type": "array", "items": deep}]}
        if len(json.dumps(deep)) > 200_000:
            break
    yield _embed("alternatives in each other", deep, is_slow=True)
    members = {f"p{number}": {"type": "string"} for number in range(5_000)}
    yield _embed("5,000 properties", {"type": "object", "properties": members}, is_slow=True)
    yield _embed("a bound of 10^300", {"type": "integer", "minimum": 10**300})
    yield _embed("multiples", {"type": "integer", "multipleOf": 99_999_989})
    nested = '{"items": ' * 900 + "{}" + "}" * 900
    yield _lark("%json: 900 deep", f"start: %json {nested}")


def _list_gbnf() -> Iterator[Attack]:
    yield _lark(
        "GBNF: 300,000 brackets", f'root ::= {"(" * 300_000}"a"{")" * 300_000}', is_slow=True
    )
    yield _lark("GBNF: branches without spaces", "root ::= " + "|".join(['"w"'] * 200_000))
    yield _lark("GBNF: a repetition of 10^9", 'root ::= "a"{1,1000000000}')
    yield _lark("GBNF: an open class", "root ::= [" + "a" * 500_000, is_slow=True)
    yield _lark("GBNF: an open text", 'root ::= "' + "\\" * 500_001, is_slow=True)
    yield _lark("GBNF: itself", "root ::= root root | root")


GRAMMARS = (*_list_lark(), *_list_embedded(), *_list_gbnf())
