"""What is said of servers that tell in different ways what they read from their caches."""

import pytest

from constrained.inspect.cache_check.chat_client import CACHE_N, CACHED_TOKENS, PROMPT_N, ChatClient
from constrained.inspect.cache_check.experiments import Kind
from constrained.inspect.cache_check.report import CacheReport, check_server
from tests.constrained.inspect.cache_check.served_cache import ServedCache, Style, serving
from tests.unstable_templates import HARMFUL, LAST_QUERY, LAST_TAG, QUERY_TAG, SWITCHED

COUNTED = {
    Style.OPENAI: CACHED_TOKENS,
    Style.LLAMA_SERVER: CACHE_N,
    Style.OLD_LLAMA_SERVER: PROMPT_N,
}
REFUSES_TOOLS = """{% for message in messages %}
{%- if message.role not in ('user', 'assistant') %}{{ raise_exception('no such role') }}{% endif %}
{{- message.content }}|{% endfor %}"""
COSTLY = {
    "reasoning dropped",
    "a header that rotates",
    "the time in the system message",
    "tools in another order",
    "an edited description",
    "arguments spelled anew",
}


def check(cache: ServedCache) -> CacheReport:
    with serving(cache) as url:
        report = check_server(ChatClient(url, clock=lambda: cache.clock))
    assert report.requests == cache.asked <= 42
    return report


def find_lost(report: CacheReport) -> set[str]:
    return {cost.name for cost in report.costs if cost.lost}


@pytest.mark.parametrize("style", COUNTED)
@pytest.mark.parametrize("block", [1, 16])
def test_counts_are_read_in_the_words_of_each_server(style: Style, block: int):
    report = check(ServedCache(style, block=block))
    assert report.meter is not None
    assert (report.meter.source, report.meter.is_estimate) == (COUNTED[style], False)
    assert find_lost(report) == COSTLY
    for cost in report.costs:
        assert 0 <= cost.cached < cost.prompt_tokens
        assert cost.lost <= cost.expected <= cost.prompt_tokens
        assert bool(cost.advice) is bool(cost.lost) is bool(cost.explain())


@pytest.mark.parametrize("style", [Style.OLD_OLLAMA, Style.OLLAMA, Style.ZERO, Style.SILENT])
def test_what_is_not_counted_is_estimated(style: Style):
    report = check(ServedCache(style))
    assert report.meter is not None
    assert report.meter.is_estimate
    assert "a header that rotates" in find_lost(report)
    grown = [cost for cost in report.costs if cost.name in ("plain chat", "system and tools")]
    assert [cost.lost for cost in grown] == [0, 0]


@pytest.mark.parametrize("style", [Style.OPENAI, Style.LLAMA_SERVER, Style.OLLAMA])
def test_a_server_without_a_cache(style: Style):
    report = check(ServedCache(style, has_cache=False))
    assert report.meter is None
    assert report.costs == ()
    assert report.to_json()["reads_cache"] is False


def test_the_clause_of_the_template_is_named():
    costs = {cost.name: cost for cost in check(ServedCache(source=LAST_QUERY)).costs}
    kept = costs["reasoning kept"]
    assert kept.lost
    assert kept.clause is not None
    assert kept.clause.tag == QUERY_TAG
    assert "the place of the last user message" in kept.explain()
    assert costs["tool loop"].lost == 0
    described = costs["an edited description"].clause
    assert described is not None
    assert "tools" in described.tag


def test_a_variable_that_avoids_it_is_named():
    costs = {cost.name: cost for cost in check(ServedCache(source=SWITCHED)).costs}
    assert costs["reasoning kept"].cure == {"keep_all": True}
    assert '{"keep_all": true}' in costs["reasoning kept"].explain()


def test_an_instruction_behind_the_last_message():
    report = check(ServedCache(source=HARMFUL))
    shapes = [cost for cost in report.costs if cost.kind is Kind.SHAPE]
    assert {cost.name for cost in shapes if cost.lost} >= {"plain chat", "tool loop"}
    assert LAST_TAG in shapes[0].explain()


def test_without_the_template_costs_are_told_all_the_same():
    report = check(ServedCache(source=LAST_QUERY, tells_template=False))
    assert not report.has_template
    assert find_lost(report) == COSTLY | {"reasoning kept"}
    assert {cost.clause for cost in report.costs} == {None}


def test_what_the_template_does_not_write_costs_nothing_and_is_told():
    plain = "{% for message in messages %}{{ message.content }}|{% endfor %}"
    costs = {cost.name: cost for cost in check(ServedCache(source=plain)).costs}
    for name in ("tools in another order", "arguments spelled anew", "an id that changes"):
        assert (costs[name].lost, costs[name].is_unseen) == (0, True)
    assert not costs["a header that rotates"].is_unseen
    assert not costs["plain chat"].is_unseen


def test_a_prompt_that_the_server_has_forgotten_is_no_fault_of_the_template():
    _, tools, *_ = check(ServedCache(forgets="get_time")).costs
    assert tools.lost
    assert tools.clause is None
    assert "the server has not kept it" in tools.explain()


def test_a_shape_that_the_server_refuses_does_not_end_the_check():
    cache = ServedCache(source=REFUSES_TOOLS, refuses_tools=True)
    with serving(cache) as url:
        report = check_server(ChatClient(url))
    plain, *others = report.costs
    assert plain.cached
    assert all("takes no tools" in cost.explain() for cost in others)
