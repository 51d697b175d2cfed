"""`constrained check`: every row gets an answer, whatever it holds."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from constrained.errors import GrammarError
from constrained.inspect.replay import check
from constrained.inspect.replay.check import check_rows, read_rows
from constrained.mask import matcher as mask
from constrained.mask.matcher import Matcher
from tests.check_answers import CALL, KINDS, answer_to, calls, judged
from tests.templates import HERMES, PING, QWEN3_CODER, WRITE, hermes_call, tool

QWEN3_CODER_CALL = "<tool_call>\n<function=ping>\n</function>\n</tool_call>"
ODD: list[Any] = [1, 1.5, True, False, "x", [1], {"a": 1}, [None], [{}], [[]], "", [], {}]
FIELDS = "tools messages tool_choice chat_template_kwargs reasoning_format markers text template"
FIELDS += " format bos_token eos_token parallel_tool_calls response_format tool_format"
FIELDS += " model id"


@pytest.mark.parametrize("field", FIELDS.split())
def test_fields_of_the_wrong_type(field: str):
    fine = {"template": HERMES, "tools": [PING], "text": CALL}
    for value in ODD:
        (answer,) = check_rows([{**fine, field: value}])
        json.dumps(answer)
        if field != "text" and answer["format"] is not None:
            assert calls(answer)[0][:2] == ("ping", {})  # the parser runs all the same
        elif isinstance(value, str) or field != "text":
            assert answer["content"] == (value if field == "text" else CALL)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": None}, "the row has no text (at /text)"),
        ({"text": "a\ud800"}, "the text has a lone surrogate, at character 1 (at /text)"),
        ({"template": None}, "the row names no template or format (at /format). Known: hermes"),
        ({"template": None, "format": "x"}, "unknown format 'x' (at /format). Known: hermes"),
        ({"template": "no/such.jinja"}, "no template 'no/such.jinja' (at /template). Give"),
        ({"template": "{% for %}"}, "chat template, line 1: Expected an expression"),
        ({"template": "{{ raise_exception('no!') }}"}, "chat template, line 1: no!"),
        ({"messages": [{}]}, "a message has no role (at /messages/0/role)"),
        ({"messages": "hi"}, "messages are not an array (at /messages)"),
        ({"messages": [{"role": "user", "content": 5}]}, "chat template, line 14"),
        ({"tools": {"a": 1}}, "tools must be a list, not dict (at /tools)"),
        ({"tools": [tool("bad", type="string")]}, "tool 'bad': the schema allows no object"),
        ({"tool_choice": {"name": "ping"}}, "is not known (at /tool_choice)"),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "names the unknown tool 'x'"),
        ({"tool_choice": "required", "tools": []}, "a call is required, but no tool is offered"),
        ({"chat_template_kwargs": []}, "must be an object (at /chat_template_kwargs)"),
        ({"chat_template_kwargs": {"tools": 1}}, "may not set tools (at /chat_template_kwargs/t"),
        ({"reasoning_format": "all"}, "must be auto or deepseek or none (at /reasoning_format)"),
        ({"markers": "bytes"}, "markers must be text or token (at /markers)"),
        ({"parallel_tool_calls": "no"}, "must be true or false (at /parallel_tool_calls)"),
        ({"response_format": {"type": "xml"}}, "is not known (at /response_format)"),
        ({"tool_format": "x"}, "unknown tool format 'x'. Known: hermes"),
        ({"tool_format": "harmony"}, "harmony cannot be taught"),
        ({"tool_format": "hermes", "template": None, "format": "hermes"}, "(at /tool_format)"),
        ({"model": "no/such.gguf"}, "no/such.gguf cannot be read"),
    ],
)
def test_errors_say_what_and_where(row: dict[str, Any], message: str):
    (answer,) = check_rows([{"id": [7], "template": HERMES, "text": "hi", "tools": [PING], **row}])
    assert message in answer["error"]
    assert answer["id"] == [7]
    assert not answer["valid"] or "tools" in row


def test_a_chosen_format_is_what_is_read():
    text = QWEN3_CODER_CALL
    rows = [{"template": HERMES, "text": text, "tools": [PING], "tool_format": "qwen3_coder"}]
    (answer,) = check_rows(rows)
    assert (answer["accepted"], answer["format"]) == (True, "qwen3_coder")
    assert calls(answer)[0][:2] == ("ping", {})


LONG = {
    "prose": "x" * 100_000,
    "lines": "\n" * 100_000,
    "openers": "<tool_call>" * 5_000,
    "thoughts": "<think>" * 5_000,
    "brackets": "[" * 50_000,
    "string": hermes_call("write", '{"text": "' + "x" * 100_000 + '"}'),
    "deep": hermes_call("write", '{"text": ' + "[" * 5_000 + "]" * 5_000 + "}"),
    "number": hermes_call("write", '{"text": 1' + "0" * 5_000 + "}"),
    "tagged": "<tool_call>\n<function=write>\n" + "<parameter=text>\n" * 5_000,
    "nul": "a\0b\x1b\ufeff\u2028",
    "surrogate": hermes_call("write", '{"text": "\\ud800"}'),
    "empty": "",
}


@KINDS
@pytest.mark.parametrize("source", [HERMES, QWEN3_CODER])
@pytest.mark.parametrize("name", LONG)
def test_texts_that_are_odd(name: str, source: str, markers: str):
    answer = answer_to(LONG[name], (WRITE,), template=source, markers=markers)
    assert answer["error"] is None
    assert answer["format"]
    if not answer["tool_calls"] and name not in ("thoughts", "lines"):
        assert answer["content"] == LONG[name]
    assert judged(answer) in ("acv", "a--") or not answer["accepted"]


def deep(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("depth", [50, 150, 400, 900])
def test_rows_that_nest_deeply(depth: int):
    nested = deep(depth)
    for row in (
        {"tools": [PING, tool("deep", {"a": nested})]},
        {"messages": [{"role": "user", "content": "x", "extra": nested}]},
        {"tool_choice": nested},
        {"chat_template_kwargs": {"a": nested}},
    ):
        (answer,) = check_rows([{"template": HERMES, "tools": [PING], "text": CALL, **row}])
        assert calls(answer) == [("ping", {}, True)]


def test_an_object_of_many_properties_does_not_overrun_the_stack(monkeypatch: pytest.MonkeyPatch):
    many = tool("many", {f"k{i}": {"type": "string"} for i in range(3_000)})
    assert judged(answer_to(CALL, (many, PING))) == "acv"
    monkeypatch.setattr(mask, "MAX_RULES", 100)
    more = tool("more", {f"k{i}": {"type": "string"} for i in range(200)})
    assert "rules, the limit is 100. Offer fewer tools" in answer_to(CALL, (more, PING))["error"]


def test_kwargs_may_have_any_name():
    names = ("self", "markers", "keep", "variables", "row", "add", "template")
    assert answer_to(chat_template_kwargs=dict.fromkeys(names, 1))["error"] is None


def test_a_matcher_that_failed_is_not_used_again(monkeypatch: pytest.MonkeyPatch):
    accepts = Matcher.count_accepted

    def fail(self: Matcher, tokens: list[int]) -> int:
        raise GrammarError("the grammar failed: too many states")

    assert judged(answer_to(CALL)) == "acv"
    monkeypatch.setattr(Matcher, "count_accepted", fail)
    failed = answer_to(CALL)
    assert failed["error"] == "the grammar failed: too many states"
    assert judged(failed) == "--v"
    assert calls(failed) == [("ping", {}, True)]
    assert check._compile.cache.size.count == 0
    monkeypatch.setattr(Matcher, "count_accepted", accepts)
    assert judged(answer_to(CALL)) == "acv"


def test_rows_are_answered_in_order_and_one_by_one():
    def rows() -> Iterator[dict[str, Any]]:
        for number in itertools.count():
            yield {"id": number, "template": HERMES, "text": "hi"} if number % 2 else {"id": number}

    answers = itertools.islice(check_rows(rows()), 6)
    assert [(a["id"], a["accepted"]) for a in answers] == [(i, bool(i % 2)) for i in range(6)]


def test_lines_that_are_no_rows():
    deep_line = "[" * 100_000
    lines = [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"id": NaN}',
        b'\xef\xbb\xbf{"id": 1}',
        "5",
        deep_line,
        "\n",
    ]
    answers = list(check_rows(read_rows(lines)))
    assert [a["error"].partition(":")[0] for a in answers] == [
        "line 2 is not JSON",
        "line 3 is not an object",
        "line 4 is not JSON",
        "line 5 is not JSON",
        "the row has no text (at /text)",
        "line 7 is not an object",
        "line 8 is not JSON",
    ]
    assert [a["id"] for a in answers] == [None] * 4 + [1, None, None]
    assert "the row is not an object" in next(check_rows([5]))["error"]
