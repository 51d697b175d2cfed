"""`constrained check`: what is accepted, complete and valid, and what the parser reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.check_answers import CALL, KINDS, answer_to, calls, judged
from tests.templates import HERMES, OPEN, PING, QWEN3_CODER, WRITE, hermes_call, tool


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
        ("paint", '{"color": "blue", "glossy": true}', "/arguments/color"),
        ("paint", '{"color": "red", "glossy": 1}', "/arguments/glossy"),
        ("delete", "{}", "/name"),
    ]
    for name, arguments, pointer in wrong:
        answer = answer_to(hermes_call(name, arguments), markers=markers)
        assert judged(answer) == "---"
        assert calls(answer) == [(name, json.loads(arguments), False)]
        assert [e["pointer"] for e in answer["tool_calls"][0]["errors"]] == [pointer]
        assert answer["accepted_bytes"] > 10
        assert answer["error"].endswith(f"(at /tool_calls/0{pointer})")


def test_accepted_bytes_counts_bytes():
    answer = answer_to("é日</think>")
    assert judged(answer) == "---"
    assert answer["accepted_bytes"] == len("é日</think".encode())
    assert answer_to("é日")["accepted_bytes"] == 5


def test_complete_needs_what_the_policy_asks_for():
    assert judged(answer_to("hi")) == "acv"
    assert judged(answer_to("", tool_choice="required")) == "a--"
    assert judged(answer_to("hi", tool_choice="required")) == "---"
    assert judged(answer_to(CALL[:-3])) == "a-v"
    assert judged(answer_to("<think>\nhm")) == "a--"


@KINDS
@pytest.mark.parametrize(
    ("choice", "verdicts"),
    [
        ("auto", "acv acv acv acv"),
        ("none", "acv --v --v --v"),
        ({"type": "none"}, "acv --v --v --v"),
        ("required", "--- acv acv acv"),
        ({"type": "any"}, "--- acv acv acv"),
        ({"type": "any", "disable_parallel_tool_use": True}, "--- acv acv --v"),
        ({"type": "tool", "name": "ping"}, "--- acv --v --v"),
        ({"type": "function", "function": {"name": "ping"}}, "--- acv --v --v"),
        ({"type": "function", "name": "ping"}, "--- acv --v --v"),
        ({"type": "allowed_tools", "tools": [{"name": "ping"}]}, "acv acv --v --v"),
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
    assert judged(single) == "--v"
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
        (HERMES, f"<think>\nhm {CALL}\n</think>\n\nhi", f"<think>\nhm {CALL}\n</think>\n\nhi"),
        (HERMES, f"<think>\nhm\n{CALL}", "<think>\nhm"),
        (OPEN, "hm\n</think>\n\nhi", "<think>\nhm\n</think>\n\nhi"),
        (OPEN, f"hm\n</think>\n\n{CALL}", "<think>\nhm\n</think>\n\n"),
        (OPEN, "hm", "<think>\nhm"),
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


def test_white_space_before_the_end():
    spaced = HERMES.replace("{{- '<|im_end|>\\n' }}", "{{- '\\n<|im_end|>\\n' }}")
    text = CALL + "\n<|im_end|>"
    assert judged(answer_to(text, template=spaced)) == "acv"
    assert judged(answer_to(CALL + "<|im_end|>", template=spaced)) == "acv"
    assert judged(answer_to(text)) == "acv"
    single = {"parallel_tool_calls": False}
    assert judged(answer_to(text, **single)) == "--v"


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
    answer = answer_to(CALL, (bad, PING))
    assert "tool 'bad'" in answer["error"]
    assert "/tools/0/function/parameters/properties/a/$ref" in answer["error"]
    assert judged(answer) == "acv"
    assert calls(answer_to(hermes_call("bad"), (bad, PING))) == [("bad", {}, False)]
    spaced = answer_to("hi", (tool("a b"), PING), template=QWEN3_CODER)
    assert "cannot write the name 'a b'" in spaced["error"]
    assert judged(spaced) == "---"


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
    assert answer_to(hermes_call("ping"), model=bare)["format"] == "generic"
    assert judged(answer_to(model=bare, template=HERMES)) == "acv"


@KINDS
def test_an_enum_may_have_thousands_of_values(markers: str):
    values = [f"value number {i}" for i in range(3_000)]
    pick = tool("pick", {"value": {"type": "string", "enum": values}})
    call = hermes_call("pick", '{"value": "value number 2999"}')
    assert judged(answer_to(call, (pick,), markers=markers)) == "acv"
