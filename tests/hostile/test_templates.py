"""Chat templates that ask for more time or memory than anybody has."""

import json
from pathlib import Path

import pytest

from constrained.template.work_limits import TemplateLimitError
from tests.command_line import Run, write
from tests.hostile.attacked import run_attack
from tests.scripted_model import scripted
from tests.templates import HERMES

LOOP = "{% set l = range(100000)|list %}{% for i in l %}"
HASHED = 2**61 - 1  # integers that differ by it have the same hash
BIG = "{% set s = 'a' * 10000000 %}{% for i in range(100000) %}"


def grow(start: str, step: str, then: str) -> str:
    """A value that doubles in each pass of a loop, and what is done with it."""
    head = "{% set ns = namespace(s=" + start + ", t=" + start + ") %}{% for i in range(60) %}"
    steps = "".join(
        "{% set ns." + name + " = " + step.replace("x", "ns." + name) + " %}" for name in "st"
    )
    return head + steps + "{% endfor %}" + then


BOMBS = {
    "a tower of powers": "{{ 9**9**9**9**9**9**9 }}",
    "a large power": "{{ 10 ** 10000000 }}",
    "squares of squares": grow("3", "x * x", ""),
    "a long text": "{{ 'a' * 10**10 }}",
    "a wide text": "{{ 'a'|center(10**9) }}",
    "a wide constant": "{{ 'a'|center(1000000000) }}",
    "a wide text by a method": "{{ 'a'.ljust(10**10) }}",
    "a wide number": "{{ '%1000000000d' % 1 }}",
    "a width of its own": "{{ '%*d' % (1000000000, 1) }}",
    "a long fraction": "{{ '%.1000000000f'|format(1) }}",
    "a wide field": "{{ '{:>9999999999}'.format('a') }}",
    "a width in a field": "{{ '{:>{}}'.format('a', 999999999) }}",
    "a wide field of a map": "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "a wide date": "{{ strftime_now('%1000000000d') }}",
    "bytes of a number": "{{ (5).to_bytes(10**9, 'big') }}",
    "a long list": "{{ [1] * 10**9 }}",
    "a large batch": "{{ [1]|batch(10**9, 'x')|list }}",
    "many slices": "{{ [1]|slice(10**9)|list }}",
    "a far indent": "{{ ('x\n' * 10000)|indent(10**7) }}",
    "a long indent": "{{ ('x\n' * 100000)|indent('y' * 10000) }}",
    "indented JSON": "{{ [1, [2]]|tojson(indent=10**9) }}",
    "a long separator": "{{ range(100000)|join('y' * 100000) }}",
    "a long separator of items to come": "{{ ('y' * 100000).join(range(9999)|map('string')) }}",
    "a replaced nothing": "{{ ('y' * 100000).replace('', 'z' * 100000) }}",
    "a replaced letter": "{{ ('y' * 100000)|replace('y', 'z' * 100000) }}",
    "translated letters": "{{ ('a' * 10000).translate({97: 'b' * 1000000}) }}",
    "tabs": "{{ ('\t' * 1000000).expandtabs(1000000) }}",
    "many parts": "{{ ('a ' * 8000000).split() }}",
    "links": "{{ ('www.a' * 100000)|urlize }}",
    "lists of lists from JSON": "{{ ('[' ~ '[],' * 5000000 ~ '[]]')|from_json }}",
    "loops in loops": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "loops that skip all": (
        "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}"
    ),
    "a loop over a list that grows": (
        "{% set l = [1] %}{% for a in l %}{{ l.append(a) }}{% endfor %}"
    ),
    "a list that grows by itself": (
        "{% set l = [1] %}{% for a in range(99) %}{{ l.extend(l) }}{% endfor %}"
    ),
    "a list in itself": "{% set l = [] %}{{ l.append(l) }}{{ l }}",
    "a list in itself, compared": "{% set l = [] %}{{ l.append(l) }}{{ l == l.copy() }}",
    "macros that call themselves twice": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "calls that call": (
        "{% macro w() %}{{ caller() }}{% endmacro %}{% macro f(n) %}{% if n %}"
        "{% call w() %}{{ f(n - 1) }}{{ f(n - 1) }}{% endcall %}{% endif %}{% endmacro %}"
        "{{ f(20) }}"
    ),
    "a loop that calls itself": (
        "{% for x in [60] recursive %}{% if x %}{{ loop([x - 1, x - 1]) }}{% endif %}{% endfor %}"
    ),
    "a text that doubles": grow("'ab'", "x ~ x", ""),
    "a text that doubles by addition": grow("'ab'", "x + x", ""),
    "a safe text that doubles": (
        "{% autoescape true %}" + grow("'<b>'|safe", "x ~ x", "") + "{% endautoescape %}"
    ),
    "a tree, written": grow("[1]", "[x, x]", "{{ ns.s }}"),
    "a tree as JSON": grow("[1]", "[x, x]", "{{ ns.s|tojson }}"),
    "trees, compared": grow("[1]", "[x, x]", "{{ ns.s == ns.t }}"),
    "trees, compared by a test": grow("[1]", "[x, x]", "{{ ns.s is eq ns.t }}"),
    "a tree as text": grow("[1]", "[x, x]", "{{ ns.s|string|length }}"),
    "a tree in a text": grow("[1]", "[x, x]", "{{ 'a' ~ ns.s }}"),
    "a tree in a form": grow("[1]", "[x, x]", "{{ '%s' % ns.s }}"),
    "a tree in an error": grow("[1]", "[x, x]", "{{ raise_exception(ns.s) }}"),
    "a tree of dictionaries": grow("{'a': 1}", "{'a': x, 'b': x}", "{{ ns.s }}"),
    "a key that is a tree": grow("(1,)", "(x, x)", "{{ {ns.s: 1} }}"),
    "a tree that is looked for": grow("(1,)", "(x, x)", "{{ {}[ns.s] }}"),
    "a tree that is asked for": grow("(1,)", "(x, x)", "{{ {}.get(ns.s) }}"),
    "a sum of lists": LOOP + "{% endfor %}{{ ([l] * 1000)|sum(start=[])|length }}",
    "lists, searched": LOOP + "{{ l.index(99999) }}{% endfor %}",
    "lists, copied": LOOP + "{{ l[1:]|length }}{% endfor %}",
    "lists, sorted": LOOP + "{{ l.sort() }}{% endfor %}",
    "lists as arguments": LOOP + "{% set c = cycler(*l) %}{% endfor %}",
    "texts, compared": BIG + "{% if s == s ~ 'b' %}{% endif %}{% endfor %}",
    "texts, cut": BIG + "{% if s[1:] %}{% endif %}{% endfor %}",
    "texts, searched": BIG + "{% if 'b' in s %}{% endif %}{% endfor %}",
    "texts, changed": BIG + "{% if s.upper() %}{% endif %}{% endfor %}",
    "texts as names": BIG + "{{ {}[s] }}{% endfor %}",
    "text that is written again and again": (
        "{% for a in range(99999) %}{% for b in range(99999) %}" + "a" * 1000 + "{% endfor %}"
        "{% endfor %}"
    ),
    "text that is kept": (
        "{% set x %}{% for a in range(99999) %}" + "a" * 100000 + "{% endfor %}{% endset %}"
    ),
    "a long template": "{{ a }}" * 100_000,
    "a text, searched from its end": "{{ ('a' * 2000000).rfind('ab' ~ 'a' * 1000000) }}",
    "a text, split from its end": "{{ ('a' * 2000000).rsplit('ab' ~ 'a' * 1000000) }}",
    "a text, stripped": "{{ ('a' * 2000000).strip('b' * 1000000 ~ 'a') }}",
    "a text, trimmed": "{{ ('a' * 2000000)|trim('b' * 1000000 ~ 'a') }}",
    "a format whose names are open": "{{ ('%(' * 1000000) % {} }}",
    "a set of integers of one hash": f"{{{{ range(0, {HASHED * 90000}, {HASHED})|unique|list }}}}",
    "keys of one hash": (
        "{% set d = {} %}{% for i in range(90000) %}"
        f"{{{{ d.setdefault(i * {HASHED}, 1) }}}}{{% endfor %}}"
    ),
    "a text as the name of a host": "{{ ('\u00e9' * 900000).encode('punycode') }}",
    "words of a title": "{{ ('ab ' * 4000000)|title }}",
}
RENDER = """
import json, sys
from constrained.errors import TemplateError
from constrained.template.chat_template import ChatTemplate
from constrained.template.work_limits import TemplateLimitError, limit_work
for name, source in json.load(open(sys.argv[1])).items():
    try:
        with limit_work(200_000):  # of 3,000,000: there are many, and each spends all
            ChatTemplate(source).render([{"role": "user", "content": "hi"}])
        print(json.dumps([name, "rendered"]), flush=True)
    except TemplateLimitError as e:
        print(json.dumps([name, "limit", str(e)]), flush=True)
    except TemplateError as e:
        print(json.dumps([name, "error", str(e)]), flush=True)
"""


def test_each_bomb_meets_a_limit_that_is_named(tmp_path: Path):
    path = tmp_path / "bombs.json"
    path.write_text(json.dumps(BOMBS))
    done = run_attack(RENDER, [str(path)])
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in found] == [*BOMBS]
    for name, outcome, *message in found:
        assert outcome == "limit", (name, outcome, message)
        assert "the template" in message[0], name


DEAD = {
    "a power": "{% if false %}{{ 9**9**9**9**9**9**9 }}{% endif %}ok",
    "a width": "{% if false %}{{ 'a'|center(1000000000) }}{% endif %}ok",
    "a repetition": "{% if false %}{{ 'a' * 10000000000 }}{% endif %}ok",
    "a sum": "{{ 'ok' if true else [[1]] * 10000000000 }}",
    "a macro": "{% macro f() %}{{ 'a'|center(1000000000) }}{% endmacro %}ok",
}


def test_what_is_never_reached_costs_nothing(tmp_path: Path):
    path = tmp_path / "dead.json"
    path.write_text(json.dumps(DEAD))
    done = run_attack(RENDER, [str(path)])
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [name, "rendered"] for name in DEAD
    ]


@pytest.mark.parametrize("name", ["loops in loops", "a tree as JSON", "a wide text"])
def test_detection_ends_at_the_limit(name: str, tmp_path: Path, run: Run):
    code, _, err = run("formats", "detect", write(tmp_path / "bomb.jinja", BOMBS[name]))
    assert code != 0
    assert "the template" in err
    assert "Traceback" not in err


def test_a_template_that_bombs_on_one_word_fails_that_request_alone():
    bomb = "{% if 'boom' in messages[-1].content %}" + BOMBS["loops in loops"] + "{% endif %}"
    with scripted("Hello", source=bomb + HERMES) as model:
        assert model.call("hi").content == "Hello"
        with pytest.raises(TemplateLimitError, match=r"line 1: the template takes more than \d"):
            model.call("boom")
        assert model.call("hi").content == "Hello"
