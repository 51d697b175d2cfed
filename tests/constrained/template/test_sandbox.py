import pytest
from jinja2.exceptions import TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from constrained.template.sandbox import CountingEnvironment, find_variables
from constrained.template.work_limits import limit_work

SOURCES = [
    "{{ 1 + 2 * 3 ** 2 // 4 % 5 - 6 / 7 }}{{ -a }}{{ 'ab' * 3 }}{{ [1] * 2 + [a] }}",
    "{{ 'a' ~ 1 ~ none ~ xs ~ undefined }}",
    "{{ 1 < a <= 3 != 4 }}{{ a in xs }}{{ 9 not in xs }}{{ 'b' in 'abc' }}{{ d == {'k': [1, 2]} }}",
    "{{ xs[1:] }}{{ 'hello'[::-1] }}{{ xs[-1] }}{{ d.k[0] }}{{ d['k'][1:2] }}{{ d.missing }}",
    "{{ {'a': 1, a: xs, (1, 2): 3}[(1, 2)] }}{{ (1,) }}{{ () }}{{ {} }}",
    "{% for x in xs if x != 2 %}{{ loop.index }}/{{ loop.length }}"
    "{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in tree recursive %}<{{ x.n }}{{ loop(x.c) }}>{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }}{% else %}none{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v|join('-') }}{% endfor %}{{ d|dictsort }}",
    "{% macro m(x, y=2) %}{{ x }}{{ y }}{{ caller() if caller }}{% endmacro %}{{ m(1) }}"
    "{% call m(3, y=4) %}inner{% endcall %}",
    "{% set ns = namespace(n=0) %}{% for x in xs %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
    "{% set t %}a{{ a }}{% endset %}{{ t|upper }}{% filter title %}some words{% endfilter %}",
    "{{ '%s and %5.2f' % ('x', 1.5) }}{{ '{:>5}|{a}'.format(1, a=2) }}{{ '%d'|format(3) }}",
    "{{ '{x}'.format_map({'x': 1}) }}{{ 'a,b'.split(',')|join(';') }}{{ 'a b'.split() }}",
    "{{ xs|map('string')|join(',') }}{{ xs|select('odd')|list }}{{ xs|sum }}{{ xs|reverse|list }}",
    "{{ [[1], [2]]|sum(start=[]) }}{{ xs|batch(2, 0)|list }}"
    "{{ xs|slice(2)|list }}{{ 2.567|round(1) }}",
    "{{ 'a\nb'|indent(2) }}{{ 'x'|center(5) }}"
    "{{ 'aXb'|replace('X', '--') }}{{ 'abcde'|truncate(4, true, '.', 0) }}",
    "{{ xs is sequence }}{{ a is eq 2 }}{{ a is divisibleby 2 }}"
    "{{ 'a' is in 'ab' }}{{ q is defined }}",
    "{% set l = [] %}{% for x in xs %}"
    "{{ l.append(x) or '' }}{% endfor %}{{ l }}{{ l.pop() }}{{ l }}",
    "{{ xs|tojson }}{{ d|length }}{{ xs|first }}{{ xs|last }}{{ q|default('z') }}{{ '7'|int + 1 }}",
    "{% autoescape true %}{{ '<' }}{{ xs[0]|string|safe ~ '<' }}"
    "{{ '%s<' % '<' }}{% endautoescape %}",
    "{{ 'a' if a == 2 else 'b' }}{{ a and xs or q }}{{ not a }}{{ ','.join(d.keys()) }}",
    "{% for i in range(3) %}{{ cycler('a', 'b').next() }}{{ loop.cycle('x', 'y') }}{% endfor %}",
    "{{ d.get('k')[0] }}{{ d.get('q', 5) }}{{ d.keys()|list }}"
    "{{ d.values()|list }}{{ d.update({'n': 1}) }}",
]


def variables():
    tree = [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": [{"n": 4, "c": []}]}]}]
    return {"a": 2, "xs": [1, 2, 3], "d": {"k": [1, 2]}, "tree": tree}


@pytest.mark.parametrize("source", SOURCES)
def test_templates_write_what_they_write_in_jinjas_own_sandbox(source: str):
    counting = CountingEnvironment()
    counting.count_filters()
    expected = SandboxedEnvironment().from_string(source).render(**variables())
    with limit_work(5_000):
        assert counting.from_string(source).render(**variables()) == expected


def test_variables_are_found_without_computing_anything():
    environment = CountingEnvironment()
    source = (
        "{{ a ~ 'x'|center(10 ** 10) }}{% set b = 1 %}{{ b }}{% for c in d %}{{ c }}{% endfor %}"
    )
    with limit_work(100):
        assert find_variables(environment.parse(source)) == {"a", "d"}


def test_the_tree_is_that_of_the_source():
    environment = CountingEnvironment()
    source = "{% for a in b %}{{ a }}{% endfor %}"
    assert environment.parse(source) == SandboxedEnvironment().parse(source)


@pytest.mark.parametrize("tag", ["include 'a'", "import 'a' as b", "extends 'a'"])
def test_no_template_loads_another_one(tag: str):
    with pytest.raises(TemplateSyntaxError, match="cannot load another one"):
        CountingEnvironment().from_string("{% " + tag + " %}")
