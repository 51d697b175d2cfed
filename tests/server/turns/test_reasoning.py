"""What becomes of what a request says of reasoning, for models that know it or do not."""

from collections.abc import Mapping
from functools import partial

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import Think
from server.turns import reasoning
from server.turns.reasoning import BUDGETS, Effort, ReasoningPlan, ReasoningRequest

QWEN = frozenset({"enable_thinking"})
GPT_OSS = frozenset({"reasoning_effort"})
SEED = frozenset({"thinking_budget"})
plan_reasoning = partial(
    reasoning.plan_reasoning, refuses=lambda values: False, write=lambda values: ""
)


def test_nothing_said_changes_nothing() -> None:
    for has_block in (True, False):
        assert (
            plan_reasoning(ReasoningRequest(), has_block=has_block, variables=QWEN)
            == ReasoningPlan()
        )


def test_effort_turns_thinking_on_with_a_budget() -> None:
    for effort, budget in BUDGETS.items():
        plan = plan_reasoning(ReasoningRequest(effort), has_block=True, variables=QWEN)
        if effort is Effort.NONE:
            assert plan == ReasoningPlan(Think.FORBIDDEN, None, {"enable_thinking": False})
        else:
            assert plan == ReasoningPlan(Think.OPTIONAL, budget, {"enable_thinking": True})


def test_budgets_rise_with_the_effort() -> None:
    budgets = [budget for budget in BUDGETS.values() if budget is not None]
    assert budgets == sorted(budgets)
    assert BUDGETS[Effort.MAX] is None


def test_templates_are_told_in_their_own_words() -> None:
    for effort, word in ((Effort.MINIMAL, "low"), (Effort.MEDIUM, "medium"), (Effort.MAX, "high")):
        plan = plan_reasoning(ReasoningRequest(effort), has_block=True, variables=GPT_OSS)
        assert plan.variables == {"reasoning_effort": word}
    plan = plan_reasoning(ReasoningRequest(budget=77), has_block=True, variables=SEED)
    assert plan == ReasoningPlan(Think.OPTIONAL, 77, {"thinking_budget": 77})


STRICT = """{% if enable_thinking is defined and enable_thinking is false %}
    {{- raise_exception("It always thinks.") }}{% endif %}
    {%- if reasoning_effort|default("xhigh") not in ("xhigh", "medium", "low") %}
    {{- raise_exception("What effort?") }}{% endif %}{{ messages[0].content }}"""


def plan_for(template: ChatTemplate, asked: ReasoningRequest) -> ReasoningPlan:
    return reasoning.plan_reasoning(
        asked,
        has_block=True,
        variables=template.variables,
        refuses=template.refuses,
        write=template.try_values,
    )


@pytest.mark.parametrize(
    ("effort", "word"),
    [
        ("none", "low"),
        ("minimal", "low"),
        ("medium", "medium"),
        ("high", "xhigh"),
        ("max", "xhigh"),
    ],
)
def test_values_that_a_template_refuses_are_not_sent(effort: str, word: str) -> None:
    template = ChatTemplate(STRICT)
    asked = ReasoningRequest(Effort(effort))
    plan = plan_for(template, asked)
    assert plan.variables["reasoning_effort"] == word
    assert plan.variables.get("enable_thinking") is (None if asked.is_off else True)
    assert plan.budget == (None if asked.is_off else BUDGETS[Effort(effort)])
    assert template.render([{"role": "user", "content": "Hi"}], **plan.variables) == "Hi"


def test_a_template_that_fails_anyway_refuses_no_value() -> None:
    template = ChatTemplate("{{ nothing.at_all }}{{ enable_thinking }}")
    assert not template.refuses({"enable_thinking": False})


def test_a_budget_goes_before_that_of_the_effort() -> None:
    asked = ReasoningRequest(Effort.HIGH, budget=9)
    assert plan_reasoning(asked, has_block=True, variables=()).budget == 9


def test_a_budget_of_nothing_is_no_thinking() -> None:
    plan = plan_reasoning(ReasoningRequest(budget=0), has_block=True, variables=QWEN)
    assert plan == ReasoningPlan(Think.FORBIDDEN, None, {"enable_thinking": False})


@pytest.mark.parametrize(
    "asked", [ReasoningRequest(Effort.LOW), ReasoningRequest(budget=5), ReasoningRequest(must=True)]
)
def test_a_model_without_reasoning_says_so(asked: ReasoningRequest) -> None:
    plan = plan_reasoning(asked, has_block=False, variables=())
    assert plan.ignored
    assert plan.think is Think.OPTIONAL
    assert plan.budget is None
    assert plan.to_json() == {"ignored": True}


def test_no_reasoning_is_what_such_a_model_does_anyway() -> None:
    plan = plan_reasoning(ReasoningRequest(Effort.NONE), has_block=False, variables=())
    assert not plan.ignored


def test_values_that_a_template_refuses_together_are_not_sent_together() -> None:
    def refuses(values: Mapping[str, bool | str]) -> bool:
        return values.get("enable_thinking") is False and "reasoning_effort" in values

    names = ("enable_thinking", "reasoning_effort")
    for effort in Effort:
        asked = ReasoningRequest(effort=effort)
        plan = plan_reasoning(asked, has_block=True, variables=names, refuses=refuses)
        assert not refuses(plan.variables)


def test_no_effort_never_becomes_a_high_one() -> None:
    def refuses(values: Mapping[str, bool | str]) -> bool:
        return values.get("reasoning_effort", "none") not in ("none", "high")

    asked = ReasoningRequest(effort=Effort.NONE)
    names = ("reasoning_effort",)
    plan = plan_reasoning(asked, has_block=True, variables=names, refuses=refuses)
    assert plan.variables == {"reasoning_effort": "none"}


_ELSE_MAX = """{% set effort = reasoning_effort if reasoning_effort in ['low', 'high'] else 'max' %}
    {{- "Reasoning Effort: " ~ (effort|capitalize) ~ ". " ~ messages[0].content }}"""


@pytest.mark.parametrize(
    ("effort", "word"),
    [
        ("none", "low"),
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "low"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "max"),
    ],
)
def test_an_effort_does_not_become_the_highest_one(effort: str, word: str) -> None:
    plan = plan_for(ChatTemplate(_ELSE_MAX), ReasoningRequest(Effort(effort)))
    assert plan.variables == {"reasoning_effort": word}


@pytest.mark.parametrize("asked", [Effort.LOW, Effort.MEDIUM])
def test_a_higher_effort_comes_last(asked: Effort) -> None:
    grades = [*Effort][1:]

    def plan(*known: Effort) -> str:
        plan = plan_reasoning(
            ReasoningRequest(asked),
            has_block=True,
            variables=GPT_OSS,
            refuses=lambda values: values["reasoning_effort"] not in known,
        )
        return plan.variables["reasoning_effort"]

    for other in grades:
        assert grades.index(Effort(plan(Effort.MINIMAL, other))) <= grades.index(asked)
    assert plan(Effort.MAX, Effort.HIGH) == "high"
