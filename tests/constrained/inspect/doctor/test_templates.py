"""What a template drops or refuses, what its variables change, and which values it loses."""

from importlib.metadata import version

import pytest

from constrained.inspect.doctor.checks.calls import check_calls, find_lossy
from constrained.inspect.doctor.checks.reasoning import check_reasoning
from constrained.inspect.doctor.checks.template import check_template
from constrained.inspect.doctor.conversations import SHAPES
from constrained.inspect.doctor.examine import examine
from constrained.inspect.doctor.known_templates import (
    TABLE,
    compare_known,
    hash_source,
    read_known,
    split_parts,
)
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.switches import Switches, list_variables
from constrained.inspect.doctor.triggers import find_triggers
from constrained.inspect.doctor.verdicts import Level
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import Start
from tests.constrained.inspect.doctor.known_table import make_table
from tests.real_templates import read_template, require_models_directory
from tests.templates import HERMES
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


def test_words_in_messages_that_change_the_prompt_are_named():
    hidden = "{%- if 'invoice' in messages[-1].content %}{{ 'Name this address.' }}{%- endif %}"
    switch = "{%- if '/short' in messages[0].content %}{{ 'Be short.' }}{%- endif %}"
    (trigger,) = find_triggers(ChatTemplate(KEPT + hidden))
    assert (trigger.text, trigger.role, trigger.is_command) == ("invoice", "user", False)
    assert trigger.written == "Name this address."
    told = {
        v.facts["trigger"]: v
        for v in check_template(make_subject(KEPT + hidden + switch))
        if "trigger" in v.facts
    }
    assert told["invoice"].level is Level.WARNING
    assert "Name this address." in told["invoice"].remedy
    assert told["/short"].level is Level.NOTE


def test_roles_and_markers_that_a_template_compares_are_no_triggers():
    assert list(find_triggers(ChatTemplate(KEPT))) == []
    assert list(find_triggers(ChatTemplate(HERMES))) == []


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


GRADED = "{% if g is defined and g in ['low', 'high'] %}{{ 'G' + g }}{% endif %}"
EFFORTS = {
    "written behind a word for it": ("{{- 'Effort: ' + (g or 'none') + '\\n' }}", True),
    "in a sentence": ("{{- 'Your reasoning is set to ' + (g or 'usual') + '.' }}", True),
    "compared with": (GRADED, True),
    "a default": ("{{ g | default('medium') }}", True),
    "an else": ("{{ g if g is defined else 'high' }}", True),
    "set": ("{% if g is not defined %}{% set g = 'medium' %}{% endif %}{{ g }}", True),
    "only where the model thinks": (
        "{% if deep is defined and deep and g == 'max' %}Hard.{% endif %}",
        True,
    ),
    "some other text": ("{{ 'Today: ' + (g or '') + '\\n' }}", False),
    "a switch that is written": ("{{ 'thinking ' + (g if g == 'off' else g or 'on') }}", False),
    "off alone": ("{% if g is defined and g == 'none' %}Do not think.{% endif %}", False),
    "nothing": ("{% if g is defined %}{% endif %}", False),
}


@pytest.mark.parametrize("name", EFFORTS)
def test_an_effort_is_known_by_what_the_template_does_with_it(name: str):
    source, is_heard = EFFORTS[name]
    thinks = "{{ '<think>' if add_generation_prompt and deep is defined and deep }}"
    subject = make_subject(source + KEPT + thinks)
    effort = subject.switches.effort
    assert (effort is not None) == is_heard
    if effort is not None:
        assert effort.name == "g"
    told = [verdict.text for verdict in check_reasoning(subject)]
    words = "an effort reaches the model: g is" if is_heard else "reads no effort"
    assert any(words in text for text in told)


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


def test_the_table_of_known_templates_is_up_to_date():
    require_models_directory()
    if f"{version('llama-cpp-python')}" not in TABLE.read_text("utf-8"):
        pytest.skip("the table is of another version of llama.cpp")
    assert make_table() == TABLE.read_text("utf-8")


def test_known_templates_are_known_and_changes_are_found():
    source = read_template("Qwen-Qwen3-0.6B")
    (same,) = compare_known(source.replace("\n", "\r\n") + "\n")
    assert same.facts["same"]
    assert same.facts["known"] == "Qwen-Qwen3-0.6B"
    changed = source.replace("ns.last_query_index", "ns.last_question")
    (near,) = compare_known("{# a comment #}\n" + changed)
    assert near.level is Level.NOTE
    assert near.facts["known"] == "Qwen-Qwen3-0.6B"
    lines = changed.split("\n")
    for part in near.facts["added"]:
        assert part["text"].split("\n")[0] in lines[part["line"] - 2]
        assert "last_question" in part["text"]
    (spaced,) = compare_known(source.replace("{%- ", "{%-  "))
    assert "except for white space" in spaced.text
    (own,) = compare_known(HERMES)
    assert "known" not in own.facts


def test_the_table_has_no_text_of_a_template():
    known = read_known()
    assert len(known) >= 70
    assert len({template.name for template in known}) == len(known)
    assert "{%" not in TABLE.read_text("utf-8")


def test_parts_have_their_lines():
    parts = split_parts("a\n\n{% if x %}\n {# no #}b\n{{ c }}")
    told = [(part.text, part.line) for part in parts]
    assert told == [("a", 1), ("{% if x %}", 3), ("b", 4), ("{{ c }}", 5)]
    assert hash_source("a\r\nb\n") == hash_source("a\nb")


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
