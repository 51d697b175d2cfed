"""What a template drops or refuses, what its variables change, and which values it loses."""

import pytest

from constrained.inspect.doctor.checks.calls import check_calls, find_lossy
from constrained.inspect.doctor.checks.reasoning import check_reasoning
from constrained.inspect.doctor.checks.template import check_template
from constrained.inspect.doctor.conversations import SHAPES
from constrained.inspect.doctor.examine import examine
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.switches import Switches, list_variables
from constrained.inspect.doctor.verdicts import Level
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import Start
from tests.real_templates import read_template
from tests.unstable_templates import KEPT, LAST_QUERY, SWITCHED, TAIL


def make_subject(source: str) -> Subject:
    return Subject("test", source, bos_text="<s>", eos_text="</s>")


def find_levels(source: str) -> dict[str, Level]:
    """The levels of what the template is given, by what that is."""
    verdicts = check_template(make_subject(source))
    return {v.facts["what"]: v.level for v in verdicts if "what" in v.facts}


def find_switches(source: str) -> Switches:
    return make_subject(source).switches


def test_a_template_that_writes_all_is_well():
    assert set(find_levels(KEPT).values()) == {Level.OK}
    assert len(find_levels(KEPT)) == 8


@pytest.mark.parametrize(
    ("cut", "put", "what", "level"),
    [
        ("message.role == 'system'", "false", "system messages", Level.WARNING),
        ("if tools", "if false", "tools", Level.WARNING),
        ("in message.tool_calls or []", "in []", "tool calls", Level.WARNING),
        (
            "in message.tool_calls or []",
            "in (message.tool_calls or [])[:1]",
            "a second call in a turn",
            Level.WARNING,
        ),
        ("in ('user', 'tool')", "in ('user',)", "results of tools", Level.WARNING),
        (
            "if message.reasoning_content",
            "if loop.last and message.reasoning_content",
            "reasoning in a tool loop",
            Level.NOTE,
        ),
        ("+ message.content }}", "}}", "earlier turns", Level.FAILURE),
    ],
)
def test_what_is_dropped_is_named(cut: str, put: str, what: str, level: Level):
    assert cut in KEPT
    changed = {name: found for name, found in find_levels(KEPT.replace(cut, put)).items() if found}
    assert changed.get(what) == level


def test_reasoning_that_is_dropped_with_the_next_question_is_a_note():
    assert find_levels(LAST_QUERY)["reasoning of earlier questions"] is Level.NOTE


def test_what_is_refused_is_told_in_the_words_of_the_template():
    source = KEPT.replace(
        "{%- if message.role == 'system' %}",
        "{%- if message.role == 'system' %}{{ raise_exception('no system role') }}",
    )
    verdicts = check_template(make_subject(source))
    (refused,) = (verdict for verdict in verdicts if verdict.level is Level.WARNING)
    assert "no system role" in refused.text
    assert refused.remedy == "This project writes it in another form; other servers do not"


def test_variables_are_found_with_the_values_that_change_something():
    switches = find_switches(SWITCHED)
    assert [(s.name, s.value) for s in switches.settings] == [("keep_all", True)]
    (setting,) = switches.settings
    assert (setting.changes_history, setting.changes_prompt) == (True, False)
    assert switches.modes() == {"": {}, "on": {}, "off": {}}


def test_thinking_is_switched_by_what_changes_the_start_of_a_turn():
    opened = "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    source = KEPT.replace(
        TAIL,
        opened + "{%- if mode == 'deep' %}{{ '<think>\\n' }}{%- elif mode == 'fast' %}"
        "{{ '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}",
    )
    switches = find_switches(source)
    starts = {setting.value: setting.start for setting in switches.settings}
    assert starts == {"deep": Start.OPEN, "fast": Start.CLOSED}
    assert switches.modes() == {"": {}, "on": {"mode": "deep"}, "off": {"mode": "fast"}}


def test_names_of_loops_and_macros_are_no_variables_but_defaults_are():
    source = (
        "{% macro m(a) %}{{ a }}{% if b is not defined %}{% set b = 1 %}{% endif %}{{ b }}"
        "{% endmacro %}{% for c in messages %}{% if c.content %}{% set d = 1 %}{% endif %}"
        "{{ d }}{{ m(c) }}{% endfor %}{{ e }}"
    )
    assert list_variables(ChatTemplate(source)) == {"b", "e"}


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ("{% if reasoning_effort is defined %}{{ reasoning_effort }}{% endif %}", True),
        ("{{ reasoning_effort | default('medium') }}", True),
        ("{% if effort is defined %}{{ effort }}{% endif %}", False),
        ("{% for reasoning_effort in messages %}{{ reasoning_effort.role }}{% endfor %}", False),
    ],
)
def test_an_effort_reaches_the_model_if_the_template_reads_its_variable(source: str, is_read: bool):
    told = [verdict.text for verdict in check_reasoning(make_subject(source + KEPT))]
    assert any("does not reach the model" in text for text in told) != is_read


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("MiniMax-M3", {"null": "left out"}),
        ("Qwen3-Coder", {}),
        ("openai-gpt-oss-120b", {}),
    ],
)
def test_values_that_a_template_changes(name: str, kinds: dict[str, str]):
    subject = make_subject(read_template(name))
    lossy = find_lossy(subject, subject.selected.format)
    assert lossy.items() >= kinds.items()
    assert bool(lossy) == bool(kinds)


@pytest.mark.parametrize(
    ("example", "is_other"),
    [
        ('<tool_call>\\n{"name": <name>, "arguments": <args>}\\n</tool_call>', False),
        ('<call>\\n{"name": <name>, "arguments": <args>}\\n</call>', True),
        ('<tool_call>\\n{"tool": <name>, "input": <args>}\\n</tool_call>', True),
    ],
)
def test_an_example_in_the_prompt_is_compared_with_the_history(example: str, is_other: bool):
    shown = f"{{% if tools %}}{{{{ '{example}' }}}}{{% endif %}}"
    told = [verdict.text for verdict in check_calls(make_subject(shown + KEPT))]
    assert any("the history has calls in another form" in text for text in told) == is_other


def test_a_diagnosis_is_json_with_each_check():
    diagnosis = examine(make_subject(KEPT)).to_json()
    assert [check["check"] for check in diagnosis["checks"]] == [
        "template",
        "calls",
        "reasoning",
        "cache",
    ]
    shapes = [v["facts"]["shape"] for v in diagnosis["checks"][-1]["verdicts"]]
    assert set(shapes) == {shape.name for shape in SHAPES}
