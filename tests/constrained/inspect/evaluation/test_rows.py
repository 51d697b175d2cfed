"""The rows of `benchmarks.real`, how answers to them are judged, and the table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bfcl.answers import (
    Limits,
    Outcome,
    Way,
    is_valid,
    read_freely,
    summarise,
)
from benchmarks.bfcl.kept_answers import KeptAnswers
from benchmarks.bfcl.rows import (
    HALVES,
    KINDS,
    Call,
    Question,
    find_half,
    fits,
    is_exact,
    read_calls,
    read_questions,
)
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from benchmarks.real import (
    CHOICES,
    FREE,
    WARM_UP,
    measure,
    show_table,
    summarise_all,
)
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.model.compile.compiler import Compiler
from constrained.prompt.template.chat_template import ChatTemplate
from tests.templates import HERMES

RINGS = Call("ring", {"times": 2})
TALKS = Outcome([], cut=False, seconds=1.0, tokens=5)


def make_question(**right: Any) -> Question:
    """A question whose right call has these alternatives of its arguments."""
    return Question("id", "simple", WARM_UP.tools, WARM_UP.messages, "ring", (right,))


def test_rows_come_one_of_each_kind_in_turn_and_are_always_the_same() -> None:
    questions = read_questions(sample_paths(), 3)
    assert [question.kind for question in questions] == [*KINDS] * 3
    assert questions == read_questions(sample_paths(), 3)
    assert read_questions(sample_paths(), 2) == questions[:6]


def test_kept_answers_are_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    question = make_question(times=[2])
    rings = Outcome([RINGS], cut=False, seconds=1.0, tokens=5, text="é")
    asked: list[str] = []

    def ask(question: Question) -> Outcome:
        asked.append(question.id)
        return rings

    for _ in range(2):
        with KeptAnswers(path) as kept:
            answered = measure([Way("ours", ask, declines=False)], [question], kept)
        assert answered["ours", "simple"] == [(question, rings)]
    assert asked == [WARM_UP.id, question.id, WARM_UP.id]


def test_halves_have_all_rows_and_none_twice() -> None:
    whole = {question.id for question in read_questions(sample_paths(), 999)}
    halves = [{q.id for q in read_questions(sample_paths(), 999, half)} for half in HALVES]
    assert all(halves)
    assert halves[0] | halves[1] == whole
    assert halves[0] & halves[1] == set()
    assert all(find_half(id) == "dev" for id in halves[0])


def test_the_right_call_of_a_row_is_exact_and_fits() -> None:
    rows = {row["id"]: row for row in read_rows(sample_paths()) if "id" in row}
    for question in read_questions(sample_paths(), 999):
        for right in rows[question.id]["gold"]:
            call = Call(right["name"], right["arguments"])
            assert fits(call, question.tools)
            assert is_exact([call], question)
            assert not is_exact([call, call], question)
            assert not is_exact([Call("another", right["arguments"])], question)


@pytest.mark.parametrize(
    ("alternatives", "value"),
    [
        ([2, 3], 3),
        ([2], 2.0),
        (["New York"], "new-york"),
        (["it's"], 'it"s'),
        ([["a", "b"]], ["A", "b."]),
        ([{"a": [1, 2], "b": ["x", ""]}], {"a": 2}),
        ([{"a": "x"}], {"a": "X"}),
        ([[{"a": ["x"]}]], [{"a": "X"}]),
        ([True], True),
        ([None], None),
    ],
)
def test_values_that_count_as_right(alternatives: list[Any], value: Any) -> None:
    assert is_exact([Call("ring", {"times": value})], make_question(times=alternatives))


@pytest.mark.parametrize(
    ("alternatives", "value"),
    [
        ([1], True),
        ([True], 1),
        ([2], "2"),
        (["2"], 2),
        ([["a", "b"]], ["b", "a"]),
        ([["a"]], ["a", "a"]),
        ([{"a": [1]}], {}),
        ([{"a": [1]}], {"a": 1, "b": 1}),
        ([{"a": [1]}], [1]),
        ([None], False),
    ],
)
def test_values_that_do_not(alternatives: list[Any], value: Any) -> None:
    assert not is_exact([Call("ring", {"times": value})], make_question(times=alternatives))


def test_what_may_be_left_out() -> None:
    question = make_question(times=[2], loud=[True, ""])
    assert is_exact([RINGS], question)
    assert is_exact([Call("ring", {"times": 2, "loud": True})], question)
    assert not is_exact([Call("ring", {"times": 2, "loud": False})], question)
    assert not is_exact([Call("ring", {"times": 2, "long": True})], question)
    assert not is_exact([Call("ring", {"loud": True})], question)
    assert not is_exact([Call("ring", ["times"])], question)


def test_calls_of_a_server_are_read() -> None:
    call = {"function": {"name": "ring", "arguments": '{"times": 2}'}}
    assert read_calls([call, call]) == [RINGS, RINGS]
    assert read_calls([{"function": {"name": "ring", "arguments": '{"times'}}]) is None


def test_what_is_valid() -> None:
    nothing_of_use = Question("id", "irrelevance", WARM_UP.tools, WARM_UP.messages, None, ())
    calls = Outcome([RINGS], cut=False, seconds=1.0, tokens=9)
    unfit = Outcome([Call("ring", {"times": "twice"})], cut=False, seconds=1.0, tokens=9)
    unread = Outcome(None, cut=True, seconds=1.0, tokens=9)
    assert is_valid(WARM_UP, calls)
    assert not any(is_valid(WARM_UP, outcome) for outcome in (TALKS, unfit, unread))
    assert is_valid(nothing_of_use, TALKS)
    assert not any(is_valid(nothing_of_use, outcome) for outcome in (calls, unfit, unread))
    failed = Outcome([], cut=False, seconds=1.0, tokens=0, error="status 500")
    assert not is_valid(nothing_of_use, failed)


def test_each_way_gets_each_row_that_it_may_be_asked() -> None:
    asked: list[tuple[str, str]] = []

    def make_way(choice: str) -> Way:
        def ask(question: Question) -> Outcome:
            asked.append((choice, question.id))
            return TALKS

        return Way(choice, ask, declines=choice == "auto")

    questions = read_questions(sample_paths(), 2)
    ways = [make_way(choice) for choice in CHOICES]
    answered = measure(ways, questions, KeptAnswers(None))
    assert {key: len(pairs) for key, pairs in answered.items() if pairs} == {
        ("required", "simple"): 2,
        ("auto", "simple"): 2,
        ("required", "multiple"): 2,
        ("auto", "multiple"): 2,
        ("auto", "irrelevance"): 2,
    }
    first = [questions[0].id, questions[1].id]
    assert [id for _, id in asked[2:6]] == [first[0], first[0], first[1], first[1]]
    assert [way for way, _ in asked[2:6]] == ["required", "auto", "auto", "required"]


def test_the_table() -> None:
    right = Outcome([RINGS], cut=False, seconds=0.5, tokens=10)
    wrong = Outcome([Call("ring", {"times": 3})], cut=True, seconds=1.5, tokens=20)
    failed = Outcome(None, cut=False, seconds=1.0, tokens=0, error="status 500")
    pairs = [(WARM_UP, outcome) for outcome in (right, right, wrong, failed)]
    rows = [summarise("ours", "simple", pairs)]
    nothing_of_use = Question("id", "irrelevance", WARM_UP.tools, WARM_UP.messages, None, ())
    rows.append(summarise("ours", "irrelevance", [(nothing_of_use, TALKS)]))
    assert show_table(rows).splitlines() == [
        "| rows | way | called | valid | right tool | exact | cut | ms | tokens | errors |",
        "|---|---|---|---|---|---|---|---|---|---|",
        "| 4 simple | ours | 75% | 75% | 75% | 50% | 25% | 750 | 10 | 1 |",
        "| 1 irrelevance | ours | 0% | 100% |  |  | 0% | 1,000 | 5 | 0 |",
    ]


def test_delivered_are_calls_that_were_written_without_a_mask() -> None:
    questions = [replace(WARM_UP, id=str(number)) for number in range(4)]
    fenced = Outcome([RINGS], cut=False, seconds=1.0, tokens=9)
    written = [fenced, fenced, TALKS, TALKS]
    delivered = [fenced, TALKS, fenced, TALKS]
    answered = {
        ("ours", "simple"): list(zip(questions, delivered, strict=True)),
        (FREE, "simple"): list(zip(questions, written, strict=True)),
    }
    assert show_table(summarise_all(answered)).splitlines() == [
        "| rows | way | called | delivered | valid | right tool | exact | cut | ms | tokens | "
        "errors |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        "| 4 simple | ours | 50% | 50% | 50% | 50% | 50% | 0% | 1,000 | 7 | 0 |",
        "| 4 simple | free | 50% |  | 50% | 50% | 50% | 0% | 1,000 | 7 | 0 |",
    ]


def test_calls_written_without_a_mask_are_read_of_tools_on_offer() -> None:
    limits = Limits(max_tokens=9, temperature=0)
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES))
    text = (
        'So: <tool_call>\n{"name": "ring", "arguments": {"times": 2}}\n</tool_call>\n'
        '<tool_call>\n{"name": "sing", "arguments": {}}\n</tool_call>'
    )
    outcome = Outcome(None, cut=False, seconds=1.0, tokens=9, text=text)
    read = read_freely(WARM_UP, outcome, compiler=compiler, limits=limits)
    assert read.calls == [RINGS]


def test_rows_whose_right_call_does_not_fit_are_left_out(tmp_path: Path) -> None:
    row = (
        '{"id": "a", "category": "simple_java", "user": "Ring", "tools": [{"type": "function", '
        '"function": {"name": "ring", "parameters": {"type": "object", "properties": '
        '{"times": {"type": "integer"}}}}}], "gold": [{"name": "ring", "arguments": '
        '{"times": %s}}]}\n'
    )
    path = tmp_path / "rows.jsonl"
    path.write_text(row % '"TWICE"' + row % "2", encoding="utf-8")
    [question] = read_questions([path], 5)
    assert question.right_arguments == ({"times": [2]},)
    assert question.messages == ({"role": "user", "content": "Ring"},)
