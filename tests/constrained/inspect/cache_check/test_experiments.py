"""What is sent: shapes grow, habits change what was there."""

import json
from itertools import pairwise

import pytest

from constrained.inspect.cache_check.experiments import Experiment, Kind, list_experiments
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.wire.format import count_common
from tests.templates import HERMES
from tests.unstable_templates import KEPT

EXPERIMENTS = {experiment.name: experiment for experiment in list_experiments()}
UNSEEN = ("an id that changes",)  # the templates here write no ids
ALL = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda one: one.name)


def test_they_are_few_enough():
    assert sum(len(experiment.requests) for experiment in EXPERIMENTS.values()) + 7 <= 42


@ALL
@pytest.mark.parametrize("source", [KEPT, HERMES])
def test_only_what_is_to_cost_something_changes_a_prompt(experiment: Experiment, source: str):
    template = ChatTemplate(source)
    prompts = [template.render(one.messages, one.tools) for one in experiment.requests]
    grows = all(later.startswith(earlier) for earlier, later in pairwise(prompts))
    is_habit = experiment.kind is Kind.HABIT or experiment.name == "reasoning dropped"
    assert grows is not (is_habit and experiment.name not in UNSEEN)


@ALL
def test_requests_are_json_and_have_arguments_as_text(experiment: Experiment):
    for request in experiment.requests:
        json.dumps([request.messages, request.tools])
        for message in request.messages:
            for call in message.get("tool_calls") or ():
                assert json.loads(call["function"]["arguments"]) == {"city": "Paris", "days": 3}


def test_an_id_changes_in_the_call_and_in_its_result():
    earlier, later = EXPERIMENTS["an id that changes"].requests
    ids = []
    for request in (earlier, later):
        (call,) = request.messages[2]["tool_calls"]
        assert request.messages[3]["tool_call_id"] == call["id"]
        ids.append(call["id"])
    assert ids[0] != ids[1]


@ALL
def test_salted_prompts_do_not_begin_alike(experiment: Experiment):
    for source in ("{{ tools|tojson }}{{ messages|tojson }}", KEPT):
        template = ChatTemplate(source)
        one = experiment.requests[0].salted("1")
        other = experiment.requests[0].salted("2")
        texts = [template.render(salted.messages, salted.tools) for salted in (one, other)]
        assert count_common(*texts) < 120
