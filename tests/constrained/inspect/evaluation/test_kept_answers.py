"""Answers in a file: what it has is not asked again, and nothing is mixed."""

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.errors import RequestError
from constrained.inspect.evaluation.asking import Messages, ModelAnswer, Tools, WrittenCall
from constrained.inspect.evaluation.kept_answers import KeptAnswers

OPTIONS = {"max_tokens": 9, "temperature": 0.0}
MODEL = {"name": "a.gguf", "sha256": "1", "cache": "f16"}
ANSWER = ModelAnswer((WrittenCall("ring", {"times": "zwölf\ud800"}),), "é", 5, 1.5, confidence=0.5)
ASK: Messages = [{"role": "user", "content": "Ring"}]


class Asked:
    """Answers, and counts how often it is asked."""

    def __init__(self, answer: ModelAnswer = ANSWER):
        self.answer = answer
        self.count = 0

    def __call__(self, messages: Messages, tools: Tools) -> ModelAnswer:
        self.count += 1
        return self.answer


def ask(path: Path | None, *, asked: Asked, model: Any = MODEL, way: str = "free") -> ModelAnswer:
    with KeptAnswers(path, OPTIONS) as kept:
        asker = kept.keep(asked, model, way)
        first = asker(ASK, [])
        assert asker(ASK, []) == first
        return first


def test_what_is_kept_is_not_asked_again(tmp_path: Path) -> None:
    asked = Asked()
    for _ in range(2):
        assert ask(tmp_path / "answers.jsonl", asked=asked) == ANSWER
    assert asked.count == 1
    ask(None, asked=asked)
    assert asked.count == 2


@pytest.mark.parametrize(
    "other",
    [
        {"model": {**MODEL, "cache": "q8_0"}},
        {"model": {**MODEL, "sha256": "2"}},
        {"way": "masked, auto"},
    ],
)
def test_other_models_and_ways_have_their_own_answers(other: Any, tmp_path: Path) -> None:
    first, second = Asked(), Asked(ModelAnswer(text="other"))
    ask(tmp_path / "answers.jsonl", asked=first)
    assert ask(tmp_path / "answers.jsonl", asked=second, **other) == second.answer


def test_another_conversation_is_asked(tmp_path: Path) -> None:
    asked = Asked()
    with KeptAnswers(tmp_path / "answers.jsonl", OPTIONS) as kept:
        asker = kept.keep(asked, MODEL, "free")
        asker(ASK, [])
        asker([*ASK, *ASK], [])
        asker(ASK, [{"type": "function"}])
    assert asked.count == 3


def test_errors_are_asked_again(tmp_path: Path) -> None:
    asked = Asked(ModelAnswer(error="status 500"))
    for _ in range(2):
        ask(tmp_path / "answers.jsonl", asked=asked)
    assert asked.count == 4


def test_half_a_line_of_a_run_that_was_killed_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask(path, asked=Asked())
    whole = path.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 20, whole.index(b"\n") + 1, 5):
        path.write_bytes(whole[:cut])
        asked = Asked()
        assert ask(path, asked=asked) == ANSWER
        assert asked.count == 1
        assert path.read_bytes() == whole


def test_other_options_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask(path, asked=Asked())
    with pytest.raises(RequestError, match=r"with max_tokens 9, not 10.*--answers"):
        KeptAnswers(path, {**OPTIONS, "max_tokens": 10})
    with pytest.raises(RequestError, match="with seed None, not 1"):
        KeptAnswers(path, {**OPTIONS, "seed": 1})


def test_a_file_that_is_none_of_ours_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    first = '{"options": {"max_tokens": 9, "temperature": 0.0}}\n'
    for text in ("[]\n", first + '{"a": 1}\n', "hi\n", "hi", f" {first[:-1]}"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(RequestError, match="is no kept answer"):
            KeptAnswers(path, OPTIONS)
        assert path.read_text(encoding="utf-8") == text
    with pytest.raises(RequestError, match="cannot be opened"):
        KeptAnswers(tmp_path, OPTIONS)


def test_another_file_of_the_same_name_is_told(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask(path, asked=Asked())
    with KeptAnswers(path, OPTIONS) as kept:
        kept.keep(Asked(), {**MODEL, "cache": "q8_0"}, "free")
        assert kept.notes == []
        kept.keep(Asked(), {**MODEL, "sha256": "2"}, "free")
        kept.keep(Asked(), {**MODEL, "sha256": "2"}, "masked, auto")
        [note] = kept.notes
    assert "a.gguf is not the file of this name" in note


def test_the_file_is_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask(path, asked=Asked())
    first, second = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert first == {"options": OPTIONS}
    assert (second["model"], second["way"], second["answer"]["text"]) == (MODEL, "free", "é")


def test_two_runs_with_one_file_keep_the_answers_of_both(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with KeptAnswers(path, OPTIONS) as one, KeptAnswers(path, OPTIONS) as other:
        one.keep(Asked(), MODEL, "free")(ASK, [])
        other.keep(Asked(), MODEL, "masked, auto")(ASK, [])
        one.keep(Asked(), MODEL, "masked, required")(ASK, [])
    for way in ("free", "masked, auto", "masked, required"):
        asked = Asked()
        assert ask(path, asked=asked, way=way) == ANSWER
        assert asked.count == 0


def test_arguments_that_are_nested_deeply_are_kept(tmp_path: Path) -> None:
    arguments: Any = {}
    for _ in range(600):
        arguments = {"a": arguments}
    answer = ModelAnswer((WrittenCall("ring", arguments),))
    assert ask(tmp_path / "answers.jsonl", asked=Asked(answer)) is answer
