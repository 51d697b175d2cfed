"""`constrained check`: every row gets an answer."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constrained import check, mask
from constrained.check import check_rows, read_rows
from constrained.errors import GrammarError
from constrained.mask import Matcher
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.templates import HERMES, OPEN, PAINT, PING, QWEN3_CODER, WRITE, hermes_call, tool

CALL = hermes_call("ping")
KINDS = pytest.mark.parametrize("markers", ["text", "token"])


def answer_to(text: Any = "hi", tools: Any = (PING, PAINT), **row: Any) -> dict[str, Any]:
    if not row.keys() & {"template", "format", "model"}:
        row["template"] = HERMES
    tools = list(tools) if isinstance(tools, tuple) else tools
    (answer,) = check_rows([{"id": 1, "tools": tools, "text": text, **row}])
    json.dumps(answer)
    return answer


def calls(answer: dict[str, Any]) -> list[tuple[str, Any, bool]]:
    return [(c["name"], c["arguments"], c["valid"]) for c in answer["tool_calls"]]


def judged(answer: dict[str, Any]) -> str:
    names = ("accepted", "complete", "valid")
    return "".join(name[0] if answer[name] else "-" for name in names)


@KINDS
def test_all_fields_of_an_answer(markers: str):
    text = f"<think>\nhm\n</think>\n\nsure\n{CALL}"
    assert answer_to(text + "<|im_end|>\nmore", markers=markers) == {
        "id": 1,
        "accepted": True,
        "accepted_bytes": len(text),
        "complete": True,
        "format": "hermes",
        "start_state": "plain",
        "reasoning_content": "hm",
        "content": "sure",
        "tool_calls": [{"id": "call_0", "name": "ping", "arguments": {}, "valid": True}],
        "valid": True,
        "error": None,
    }


@KINDS
@pytest.mark.parametrize("source", [QWEN3_CODER, None])
def test_tagged_calls(markers: str, source: str | None):
    text = (
        "<tool_call>\n<function=paint>\n<parameter=color>\nred\n</parameter>\n<parameter=glossy>\n"
    )
    given = {"format": "qwen3_coder"} if source is None else {"template": source}
    answer = answer_to(
        text + "true\n</parameter>\n</function>\n</tool_call>", markers=markers, **given
    )
    assert judged(answer) == "acv"
    assert calls(answer) == [("paint", {"color": "red", "glossy": True}, True)]


@KINDS
def test_what_does_not_fit_has_a_pointer(markers: str):
    wrong = [
        ("paint", '{"color": "blue", "glossy": true}', "/color"),
        ("paint", '{"color": "red", "glossy": 1}', "/glossy"),
        ("delete", "{}", "/name"),
    ]
    for name, arguments, pointer in wrong:
        answer = answer_to(hermes_call(name, arguments), markers=markers)
        assert judged(answer) == "---"
        assert calls(answer) == [(name, json.loads(arguments), False)]
        assert [e["pointer"] for e in answer["tool_calls"][0]["errors"]] == [pointer]
        assert answer["accepted_bytes"] > 10
        assert answer["error"] is None


def test_accepted_bytes_counts_bytes():
    answer = answer_to("é日</think>")
    assert judged(answer) == "---"
    assert answer["accepted_bytes"] == len("é日</think".encode())
    assert answer_to("é日")["accepted_bytes"] == 5


def test_complete_needs_what_the_policy_asks_for():
    assert judged(answer_to("hi")) == "acv"
    assert judged(answer_to("", tool_choice="required")) == "a--"
    assert judged(answer_to("hi", tool_choice="required")) == "---"
    assert judged(answer_to(CALL[:-3])) == "a--"
    assert judged(answer_to("<think>\nhm")) == "a--"


@KINDS
@pytest.mark.parametrize(
    ("choice", "verdicts"),
    [
        ("auto", "acv acv acv acv"),
        ("none", "acv --- --- ---"),
        ({"type": "none"}, "acv --- --- ---"),
        ("required", "--- acv acv acv"),
        ({"type": "any"}, "--- acv acv acv"),
        ({"type": "any", "disable_parallel_tool_use": True}, "--- acv acv ---"),
        ({"type": "tool", "name": "ping"}, "--- acv --- ---"),
        ({"type": "function", "function": {"name": "ping"}}, "--- acv --- ---"),
        ({"type": "function", "name": "ping"}, "--- acv --- ---"),
        ({"type": "allowed_tools", "tools": [{"name": "ping"}]}, "acv acv --- ---"),
    ],
)
def test_tool_choice(choice: Any, verdicts: str, markers: str):
    paint = hermes_call("paint", '{"color": "red", "glossy": true}')
    texts = ["hi", CALL, paint, CALL + "\n" + paint]
    answers = [answer_to(text, tool_choice=choice, markers=markers) for text in texts]
    assert " ".join(map(judged, answers)) == verdicts
    assert [len(a["tool_calls"]) for a in answers] == [0, 1, 1, 2]  # the parser does not mind


def test_parallel_tool_calls():
    two = CALL + "\n" + CALL
    assert judged(answer_to(two)) == "acv"
    assert judged(answer_to(two, parallel_tool_calls=None)) == "acv"
    single = answer_to(two, parallel_tool_calls=False)
    assert judged(single) == "---"
    assert single["accepted_bytes"] == len(CALL)
    assert len(single["tool_calls"]) == 2


def test_start_states():
    closed = {"chat_template_kwargs": {"enable_thinking": False}}
    opened = answer_to(f"hm\n</think>\n\n{CALL}", template=OPEN)
    assert (opened["start_state"], judged(opened)) == ("open", "acv")
    assert opened["reasoning_content"] == "hm"
    assert answer_to("hm", template=OPEN)["reasoning_content"] == "hm"
    answer = answer_to(CALL, **closed)
    assert (answer["start_state"], judged(answer)) == ("closed", "acv")
    assert judged(answer_to("<think>\nhm\n</think>\n\nhi", **closed)) == "---"


@KINDS
@pytest.mark.parametrize(
    ("source", "text", "content"),
    [
        (HERMES, "<think>\nhm\n</think>\n\nhi", "<think>\nhm\n</think>\n\nhi"),
        (HERMES, "<think>\n\n</think>\n\nhi", "<think>\n\n</think>\n\nhi"),
        (HERMES, f"<think>hm</think>{CALL}", "<think>hm</think>"),
        (HERMES, f"<think>\nhm\n</think>\n\n{CALL}", "<think>\nhm\n</think>\n\n"),
        (HERMES, f"\n<think>\nhm\n</think>\n\nso\n{CALL}", "\n<think>\nhm\n</think>\n\nso"),
        (HERMES, f"so\n{CALL}", "so"),
        (HERMES, CALL, ""),
        (HERMES, "<think>\nhm", "<think>\nhm"),
        (HERMES, f"<think>\nhm\n{CALL}\n</think>\n\nhi", "<think>\nhm\n</think>\n\nhi"),
        (OPEN, "hm\n</think>\n\nhi", "hm\n</think>\n\nhi"),
        (OPEN, f"hm\n</think>\n\n{CALL}", "hm\n</think>\n\n"),
        (OPEN, "hm", "hm"),
    ],
)
def test_reasoning_format_none(source: str, text: str, content: str, markers: str):
    rows = {"template": source, "markers": markers}
    answer = answer_to(text, reasoning_format="none", **rows)
    assert answer["content"] == content
    assert answer["reasoning_content"] == ""
    for name in ("auto", "deepseek", None):
        other = answer_to(text, reasoning_format=name, **rows)
        assert calls(answer) == calls(other)
        assert judged(answer) == judged(other)


def test_the_end_of_a_turn():
    assert answer_to("a<|im_end|>b<|im_end|>")["content"] == "a"
    assert answer_to("a<|im_start|>b")["content"] == "a<|im_start|>b"
    closing = HERMES.replace("<|im_end|>\\n' }}", "' + eos_token }}")
    assert closing != HERMES
    assert answer_to("a</s>b", template=closing)["content"] == "a"
    assert answer_to("a<eos>b", template=closing, eos_token="<eos>")["content"] == "a"
    assert answer_to("a</s>b", template=closing, eos_token="<eos>")["content"] == "a</s>b"


def test_white_space_before_the_end_is_legal_where_the_template_writes_it():
    spaced = HERMES.replace("{{- '<|im_end|>\\n' }}", "{{- '\\n<|im_end|>\\n' }}")
    text = CALL + "\n<|im_end|>"
    assert judged(answer_to(text, template=spaced)) == "acv"
    assert judged(answer_to(CALL + "<|im_end|>", template=spaced)) == "acv"
    assert judged(answer_to(text)) == "a--"  # another call could follow, not the end


@KINDS
def test_the_end_token_of_bytes_is_text(markers: str):
    answer = answer_to(hermes_call("write", '{"text": "a</s>b"}'), (WRITE,), markers=markers)
    assert judged(answer) == "acv"


def test_a_template_as_a_path(tmp_path: Path):
    path = tmp_path / "a{b}.jinja"
    path.write_text(HERMES, encoding="utf-8")
    assert judged(answer_to(CALL, template=str(path))) == "acv"
    path.write_bytes(b"\xff{")
    assert "cannot be read" in answer_to(template=str(path))["error"]


def test_a_refused_tool_does_not_take_the_others_with_it():
    bad = tool("bad", {"a": {"$ref": "#/nowhere"}})
    answer = answer_to(CALL, (bad, PING, PING))
    assert "tool 'bad'" in answer["error"]
    assert "/tools/0/function/parameters/properties/a/$ref" in answer["error"]
    assert judged(answer) == "acv"
    assert calls(answer_to(hermes_call("bad"), (bad, PING))) == [("bad", {}, False)]
    spaced = answer_to("hi", (tool("a b"), PING), template=QWEN3_CODER)
    assert "cannot write the name 'a b'" in spaced["error"]
    assert judged(spaced) == "---"


ODD: list[Any] = [1, 1.5, True, False, "x", [1], {"a": 1}, [None], [{}], [[]], "", [], {}]
FIELDS = "tools messages tool_choice chat_template_kwargs reasoning_format markers text template"
FIELDS += " format bos_token eos_token parallel_tool_calls response_format model id"


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
        ({"template": "{{ messages[0].content }}"}, "in a format that is not known"),
        ({"messages": [{}]}, "a message has no role (at /messages/0/role)"),
        ({"messages": "hi"}, "messages are not an array (at /messages)"),
        ({"messages": [{"role": "user", "content": 5}]}, "chat template, line 14"),
        ({"tools": {"a": 1}}, "tools have to be a list, not dict (at /tools)"),
        ({"tools": [tool("bad", type="string")]}, "tool 'bad': the schema admits no object"),
        ({"tool_choice": {"name": "ping"}}, "is not known (at /tool_choice)"),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "names the unknown tool 'x'"),
        ({"tool_choice": "required", "tools": []}, "a call is required, but no tool is offered"),
        ({"chat_template_kwargs": []}, "has to be an object (at /chat_template_kwargs)"),
        ({"chat_template_kwargs": {"tools": 1}}, "may not set tools (at /chat_template_kwargs/t"),
        ({"reasoning_format": "all"}, "has to be auto or deepseek or none (at /reasoning_format)"),
        ({"markers": "bytes"}, "markers has to be text or token (at /markers)"),
        ({"parallel_tool_calls": "no"}, "has to be true or false (at /parallel_tool_calls)"),
        ({"response_format": {"type": "json_object"}}, "not supported yet (at /response_format)"),
        ({"model": "no/such.gguf"}, "no/such.gguf cannot be read"),
    ],
)
def test_errors_say_what_and_where(row: dict[str, Any], message: str):
    (answer,) = check_rows([{"id": [7], "template": HERMES, "text": "hi", "tools": [PING], **row}])
    assert message in answer["error"]
    assert answer["id"] == [7]
    assert not answer["valid"] or "tools" in row


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
    monkeypatch.setattr(mask, "MOST_RULES", 100)
    more = tool("more", {f"k{i}": {"type": "string"} for i in range(200)})
    assert "rules, the limit is 100. Offer fewer tools" in answer_to(CALL, (more, PING))["error"]


def test_kwargs_may_have_any_name():
    names = ("self", "markers", "keep", "variables", "row", "add", "template")
    assert answer_to(chat_template_kwargs=dict.fromkeys(names, 1))["error"] is None


def test_a_matcher_that_failed_is_not_used_again(monkeypatch: pytest.MonkeyPatch):
    accepts = Matcher.accepts

    def fail(self: Matcher, tokens: list[int]) -> int:
        raise GrammarError("the grammar failed: too many states")

    assert judged(answer_to(CALL)) == "acv"
    monkeypatch.setattr(Matcher, "accepts", fail)
    failed = answer_to(CALL)
    assert failed["error"] == "the grammar failed: too many states"
    assert judged(failed) == "---"
    assert calls(failed) == [("ping", {}, True)]
    assert check._compile.cache_info().currsize == 0
    monkeypatch.setattr(Matcher, "accepts", accepts)
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
    assert "the row is not an object" in next(check_rows([5]))["error"]  # type: ignore[list-item]


@pytest.mark.parametrize("single", [True, False])
def test_a_model_gives_its_vocabulary_and_template(tmp_path: Path, single: bool):
    tokens = with_markers(load_small(), MARKERS) if single else load_small()
    path = str(write_model(tmp_path / "m.gguf", tokens, HERMES, n_layer=1))
    text = f"<think>\nhm\n</think>\n\nsure\n{CALL}"
    answer = answer_to(text + "<|endoftext|>", model=path)
    assert judged(answer) == "acv"
    assert answer["accepted_bytes"] == len(text)
    assert judged(answer_to(hermes_call("ping", '{"a": 1}'), model=path)) == "---"
    assert answer_to(f"hm\n</think>\n\n{CALL}", model=path, template=OPEN)["start_state"] == "open"
    bare = str(write_model(tmp_path / "bare.gguf", tokens, None, n_layer=1))
    assert "has no chat template" in answer_to(model=bare)["error"]
    assert judged(answer_to(model=bare, template=HERMES)) == "acv"
