from contextlib import suppress

import pytest

from constrained.errors import AbandonedError
from constrained.template.chat_template import ChatTemplate
from constrained.template.sandbox import CountingEnvironment
from constrained.template.work_limits import (
    TemplateLimitError,
    check_integer,
    count_items,
    limit_work,
    spend,
    spend_text,
    sum_depths,
    weigh,
)
from grammars.steps import stop_when


def spend_within(most: int, *steps: int) -> None:
    with limit_work(most):
        for count in steps:
            spend(count)


def test_the_limit_is_met_at_the_same_step_each_time():
    spend_within(3, 1, 2)
    for _ in range(2):
        with pytest.raises(TemplateLimitError, match="more than 3 steps"):
            spend_within(3, 1, 2, 1)


def test_a_limit_that_was_met_is_met_again():
    def go_on() -> None:
        with limit_work(3):
            for _ in range(2):
                with pytest.raises(TemplateLimitError):
                    spend(4)

    with pytest.raises(TemplateLimitError):
        go_on()


def spend_in_parts(most: int, part: int, *steps: int) -> None:
    with limit_work(most):
        for count in steps:
            with suppress(TemplateLimitError):
                spend_within(part, count)


def test_a_part_spends_the_steps_of_the_whole():
    spend_in_parts(5, 2, 2, 2, 1)
    with pytest.raises(TemplateLimitError, match="more than 5 steps"):
        spend_in_parts(5, 2, 2, 2, 2)


def test_the_whole_fails_although_the_failure_of_a_part_was_passed_over():
    with pytest.raises(TemplateLimitError, match="more than 5 steps"):
        spend_in_parts(5, 100, 6)


def test_a_part_that_fails_by_its_own_limit_leaves_the_rest():
    spend_in_parts(5, 2, 3, 2)


def test_values_weigh_what_they_hold():
    shared = [1, 2]
    with limit_work(7):
        weigh([shared, shared])
    with pytest.raises(TemplateLimitError), limit_work(6):
        weigh([shared, shared])
    with limit_work(3):
        weigh({"a": None})
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(TemplateLimitError), limit_work(1000):
        weigh(circle)


def test_texts_integers_and_items():
    with pytest.raises(TemplateLimitError, match="a text of 100,000,000 characters"):
        spend_text(10**8)
    check_integer(4096)
    with pytest.raises(TemplateLimitError, match="4,097 bits"):
        check_integer(4097)
    with limit_work(2):
        assert list(count_items(iter([1, 2]))) == [1, 2]
    with pytest.raises(TemplateLimitError), limit_work(1):
        list(count_items(iter([1, 2])))


def test_depths():
    assert sum_depths(1) == 0
    assert sum_depths([1, [2, {"a": 3}]]) == 2 + 2 * 2 + 3


def test_a_rendering_that_nobody_waits_for_ends() -> None:
    loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    template = ChatTemplate(loops)

    def leave() -> None:
        raise AbandonedError("nobody waits for it")

    with pytest.raises(AbandonedError), stop_when(leave):
        template.render([{"role": "user", "content": "Hello"}])


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("'é'.encode()|length", "2"),
        ("'é'.encode('UTF_8', 'strict')|length", "2"),
        ("'é'.encode(encoding='latin-1')|length", "1"),
        ("'aé'.encode('ascii', errors='ignore').decode('us-ascii')", "a"),
        ("'é'.encode('punycode')", None),
        ("'é'.encode('-punycode')", None),
        ("'é'.encode(encoding='punycodeé')", None),
        ("'é'.encode('encodings.idna')", None),
        ("'9'.encode().decode('punycode')", None),
        ("'9'.encode().decode('utf-8', 'namereplace')", None),
        ("'é'.encode(5)", None),
    ],
)
def test_templates_use_encodings_that_take_linear_time(call: str, written: str | None) -> None:
    template = ChatTemplate("{{ " + call + " }}")
    messages = [{"role": "user", "content": "Hello"}]
    if written is None:
        with pytest.raises(TemplateLimitError, match="it may be one of"):
            template.render(messages)
    else:
        assert str(template.render(messages)) == written


@pytest.mark.parametrize(
    ("keys", "is_counted"),
    [
        ("(1, 2)", True),
        ("('a', (1, 2))", True),
        ("((1,), (2,))", True),
        ("range(2)", True),
        ("2305843009213693951", True),
        ("('a', 2)", False),
        ("2", False),
        ("'a'", False),
    ],
)
@pytest.mark.parametrize("use", ["{{ {KEY: 1}|length }}", "{{ [KEY]|unique|list|length }}"])
def test_values_whose_hash_can_be_chosen_cost_more(use: str, keys: str, is_counted: bool) -> None:
    """A set of n values with the same hash takes n * n steps to make."""
    environment = CountingEnvironment()
    environment.count_filters()
    template = environment.from_string(use.replace("KEY", keys))
    with limit_work(4_000):
        assert template.render() == "1"
    if is_counted:
        with pytest.raises(TemplateLimitError), limit_work(900):
            template.render()
    else:
        with limit_work(900):
            template.render()
