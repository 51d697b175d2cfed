"""Questions: the rows of BFCL in the package, and one's own."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from constrained.errors import RequestError
from constrained.inspect.evaluation.asking import WrittenCall
from constrained.inspect.evaluation.judging import is_exact
from constrained.inspect.evaluation.rows import SAMPLE, QuestionKind, choose, fits, read_questions

KINDS = [kind for kind in QuestionKind if kind is not QuestionKind.AGENT]
RING = {
    "name": "ring",
    "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}},
}
TWICE = {"name": "ring", "arguments": {"times": 2}}
ROW = {"tools": [RING], "user": "Ring twice", "gold": [TWICE]}


def write_rows(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_questions_come_one_of_each_kind_in_turn_and_are_always_the_same() -> None:
    questions = read_questions().all
    chosen = choose(questions, KINDS, 3)
    assert [question.kind for question in chosen] == KINDS * 3
    assert choose(reversed(questions), KINDS, 3) == chosen
    assert choose(questions, KINDS, 2) == chosen[:8]
    assert choose(questions, KINDS, 3, seed=1) != chosen
    assert {question.kind for question in choose(questions, KINDS[:1], 3)} == {*KINDS[:1]}


def test_the_sample_has_enough_of_each_kind() -> None:
    counts = Counter(question.kind for question in read_questions().all)
    assert counts == dict.fromkeys(KINDS, 32)


def test_the_right_calls_of_a_row_are_exact_and_fit() -> None:
    rows = {row["id"]: row for row in map(json.loads, SAMPLE.read_text("utf-8").splitlines())}
    for question in read_questions().all:
        right = [WrittenCall(**call) for call in rows[question.id]["gold"]]
        assert all(fits(call, question.tools) for call in right)
        assert is_exact(right, question.right)
        assert is_exact(right[::-1], question.right)
        if right:
            assert not is_exact([*right, right[0]], question.right)
            assert not is_exact(right[1:], question.right)
            another = WrittenCall("another", right[0].arguments)
            assert not is_exact([another, *right[1:]], question.right)


def test_rows_of_ones_own_have_tools_of_any_shape_and_need_no_id(tmp_path: Path) -> None:
    openai = {"type": "function", "function": RING}
    anthropic = {"name": "sing", "input_schema": RING["parameters"]}
    messages = [{"role": "system", "content": "Ring."}, {"role": "user", "content": "Hello"}]
    path = write_rows(
        tmp_path / "rows.jsonl",
        ROW,
        {"tools": [openai, anthropic], "messages": messages, "gold": [TWICE], "id": "both"},
        {**ROW, "gold": [TWICE, {"name": "ring", "arguments": {"times": 3}}]},
        {**ROW, "gold": []},
    )
    found = read_questions([path])
    assert found.notes == ()
    assert [(question.id, question.kind) for question in found.all] == [
        ("rows.jsonl:1", "simple"),
        ("both", "multiple"),
        ("rows.jsonl:3", "parallel"),
        ("rows.jsonl:4", "irrelevance"),
    ]
    assert [tool["function"]["name"] for tool in found.all[1].tools] == ["ring", "sing"]
    assert [*found.all[1].messages] == messages


def test_an_empty_text_that_is_right_may_not_be_left_out(tmp_path: Path) -> None:
    call = {"name": "ring", "arguments": {"note": "", "more": [{"note": ""}]}}
    path = write_rows(tmp_path / "rows.jsonl", {**ROW, "tools": [{"name": "ring"}], "gold": [call]})
    [question] = read_questions([path]).all
    assert is_exact([WrittenCall(**call)], question.right)
    for arguments in (
        {"more": [{"note": ""}]},
        {"note": "", "more": [{}]},
        {"note": "", "more": []},
    ):
        assert not is_exact([WrittenCall("ring", arguments)], question.right)


def test_rows_that_cannot_be_judged_are_left_out_with_a_note(tmp_path: Path) -> None:
    unfit = {"name": "ring", "arguments": {"times": "twice"}}
    unknown = {"tools": [RING], "user": "Ring", "id": 7}
    path = write_rows(
        tmp_path / "rows.jsonl", unknown, {**ROW, "gold": [unfit], "id": "unfit"}, ROW
    )
    found = read_questions([path])
    assert [question.id for question in found.all] == ["rows.jsonl:3"]
    assert found.notes == (
        "left out, since they have no `gold` or no tools: 7",
        "left out, since their right call does not fit its tool: unfit",
    )


@pytest.mark.parametrize(
    ("row", "where", "message"),
    [
        ([], "", "not an object"),
        ({**ROW, "tools": {"a": 1}}, "/tools", "no list"),
        ({**ROW, "tools": [{"name": "ring", "parameters": {"type": "nonsense"}}]}, "/tools/0", ""),
        ({**ROW, "user": 3}, "/user", "no text"),
        ({**ROW, "messages": ["Ring"]}, "/messages/0", "not an object"),
        ({**ROW, "messages": []}, "/messages", "empty"),
        ({**ROW, "gold": TWICE}, "/gold", "not a list"),
        ({**ROW, "gold": [TWICE, {"name": "ring"}]}, "/gold/1", "no call"),
        ({**ROW, "gold_alternatives": []}, "/gold_alternatives", "0 for 1"),
        ({**ROW, "gold_alternatives": [{"ring": 2}]}, "/gold_alternatives/0", "no name"),
    ],
)
def test_a_wrong_row_is_named_by_file_line_and_pointer(
    row: Any, where: str, message: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "rows.jsonl", ROW, row)
    with pytest.raises(RequestError) as error:
        read_questions([path])
    assert error.value.where is not None
    assert error.value.where.startswith(where)
    assert f"{path}, line 2: " in error.value.message
    assert message in error.value.message


def test_a_line_that_is_no_json_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('\n{"tools": [\n', encoding="utf-8")
    with pytest.raises(RequestError, match=r"line 2: it is not JSON"):
        read_questions([path])
    with pytest.raises(RequestError, match=r"nowhere.jsonl cannot be read"):
        read_questions([tmp_path / "nowhere.jsonl"])


def test_an_id_is_there_once(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", {**ROW, "id": "a"}, {**ROW, "id": "a"})
    with pytest.raises(RequestError, match=r"line 2: .*'a'"):
        read_questions([path])
