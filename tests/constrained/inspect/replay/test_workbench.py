"""The workbench: where a grammar refuses a text, and what could have come there."""

from typing import Any

import llguidance
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import GrammarError, RequestError, TemplateError
from constrained.inspect.replay import replay_context, workbench
from constrained.inspect.replay.workbench import inspect_row
from constrained.mask import matcher
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.rendering import TemplateLimitError
from grammars.errors import Error
from tests.templates import HERMES, PING, hermes_call, tool

WEATHER = tool("weather", {"city": {"enum": ["Rome", "Paris"]}, "days": {"type": "integer"}})
ROW: dict[str, Any] = {"template": HERMES, "tools": [WEATHER]}
CALL = hermes_call("weather", '{"city": "Rome", "days": 2}')


def test_a_text_that_is_accepted():
    found = inspect_row({**ROW, "text": CALL})
    assert found["refusal"] is None
    assert found["check"]["complete"]
    assert found["format"] == "hermes"
    assert found["prompt"].endswith("<|im_start|>assistant\n")
    assert [report["compiles"] for report in found["tools"]] == [True]


def test_where_it_is_refused():
    found = inspect_row({**ROW, "text": CALL.replace("Rome", "Roma")})
    refusal = found["refusal"]
    assert CALL.replace("Rome", "Roma")[: refusal["offset"]].endswith("Rom")
    assert refusal["found"].startswith("a")
    assert refusal["expected"] == ["'e'"]
    assert refusal["forced"].startswith('e"')


@given(st.integers(0, len(CALL) - 1))
def test_any_cut_is_too_early_and_says_so(size: int):
    found = inspect_row({**ROW, "tool_choice": "required", "text": CALL[:size]})
    assert found["refusal"]["offset"] == size
    assert found["refusal"]["found"] == ""
    assert found["refusal"]["expected"]


@given(st.text(max_size=30))
def test_any_text_is_looked_at(text: str):
    try:
        found = inspect_row({**ROW, "tool_choice": "required", "text": text})
    except Error:
        return
    accepted = found["check"]["accepted_bytes"]
    assert found["refusal"] is not None
    assert found["refusal"]["offset"] == accepted


def test_a_refused_tool_does_not_take_the_others_with_it():
    bad = tool("bad", {"a": {"type": "string", "pattern": "("}})
    found = inspect_row({**ROW, "tools": [bad, WEATHER], "text": CALL})
    assert [report["compiles"] for report in found["tools"]] == [False, True]
    assert found["check"]["complete"]


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"model": "model.gguf"}, "/model"),
        ({"template": "/etc/passwd"}, "/template"),
        ({"template": HERMES, "tool_format": "/etc/passwd"}, "/tool_format"),
        ({"format": "/etc/passwd"}, "/format"),
    ],
)
def test_files_are_refused(row: dict[str, Any], where: str):
    with pytest.raises(RequestError) as caught:
        inspect_row(row)
    assert caught.value.where == where


def test_a_template_that_fails_is_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def note(template: ChatTemplate, *given: Any, **options: Any) -> Any:
        seen.append(template.source)
        return select_format(template, *given, **options)

    monkeypatch.setattr(replay_context, "select_format", note)
    row = {"template": "{{ raise_exception('no ' + messages[0].content) }}"}
    messages: list[str] = []
    for _ in range(2):
        with pytest.raises(TemplateError) as failure:
            inspect_row(row)
        messages.append(str(failure.value))
    assert seen == [row["template"]]
    assert messages[0] == messages[1]


def test_all_work_of_a_template_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rendering takes little time, and there are many."""
    monkeypatch.setattr(workbench, "DETECTION_SECONDS", 0.01)
    row = {"template": "{% for i in range(99999) %}{% endfor %}{{ messages[0].content }}"}
    with pytest.raises(TemplateLimitError, match=r"more than 0\.01 seconds in all"):
        inspect_row(row)


def test_all_schemas_of_a_row_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "MAX_STEPS", 100)
    with pytest.raises(GrammarError, match="too many steps") as failure:
        inspect_row({"format": "hermes", "tools": [PING], "text": ""})
    assert failure.value.where == "/tools"


def test_a_text_whose_masks_are_too_costly_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The vocabulary of bytes has no tokens to need more; a real one does.
    limits = llguidance.LLParserLimits(verbose_errors=False, step_lexer_fuel=10_000)
    monkeypatch.setattr(matcher, "OWN_LIMITS", limits)
    pattern = {"type": "string", "pattern": "^[ab]*a[ab]{2000}$"}
    text = hermes_call("spell", '{"word": "')[: -len("\n</tool_call>") - 1] + "ab" * 20_000
    with pytest.raises(GrammarError, match="too costly") as failure:
        inspect_row({"format": "hermes", "tools": [tool("spell", {"word": pattern})], "text": text})
    assert failure.value.where == "/text"
