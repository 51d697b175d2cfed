"""Chat templates that ask for more time or memory than anybody has: they take no more than they
may, and this process goes on."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from constrained.errors import TemplateError
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.rendering import TemplateLimitError, limit_renderings
from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import HERMES

HASHED = 2**61 - 1  # integers that differ by it have the same hash
BIG = "{% set s = 'a' * 10000000 %}{% for i in range(100000) %}"
HELLO = [{"role": "user", "content": "Hello"}]


def grow(start: str, step: str, then: str) -> str:
    """A value that doubles in each pass of a loop, and what is done with it."""
    head = "{% set ns = namespace(s=" + start + ", t=" + start + ") %}{% for i in range(60) %}"
    steps = "".join(
        "{% set ns." + name + " = " + step.replace("x", "ns." + name) + " %}" for name in "st"
    )
    return head + steps + "{% endfor %}" + then


BOMBS = {
    "filters in filters, which end on the C stack": (
        "{% set ns = namespace(l='ab') %}{% for i in range(20000) %}{% set ns.l = ns.l|select %}"
        "{% endfor %}{{ ns.l|first }}"
    ),
    "long divisions": (
        "{% set n = namespace(x=3) %}{% for i in range(21) %}{% set n.x = n.x * n.x %}{% endfor %}"
        "{% for i in range(1000) %}{{ n.x is divisibleby(n.x // 3) }}{% endfor %}"
    ),
    "the beginning of a list, taken": (
        "{% set l = ('a' * 1500000)|list %}{% for i in range(99999) %}{{ l.pop(0) }}{% endfor %}"
    ),
    "texts as lists": (
        "{% set l = [] %}{% for i in range(99) %}{{ l.extend('\U0001f600' * 8000000) }}{% endfor %}"
    ),
    "many blocks": (
        "".join("{%set a" + str(i) + "=1%}" for i in range(600))
        + "".join("{% block b" + str(i) + " scoped %}{% endblock %}" for i in range(600))
    ),
    "many names": ("{{ dict(" + ",".join(f"a{i}=1" for i in range(20000)) + ") }}"),
    "many branches": "{% if a %}" + "{% elif b %}" * 15000 + "{% endif %}",
    "many calls of itself": "{% block a %}{% endblock %}" + "{{ self.a() }}" * 15000,
    "a tower of powers": "{{ 9**9**9**9**9**9**9 }}",
    "a wide constant": "{{ 'a'|center(1000000000) }}",
    "a wide date": "{{ strftime_now('%1000000000d') }}",
    "many slices": "{{ [1]|slice(10**9)|list }}",
    "a far indent": "{{ ('x\n' * 10000)|indent(10**7) }}",
    "indented JSON": "{{ [1, [2]]|tojson(indent=10**9) }}",
    "links": "{{ ('www.a' * 100000)|urlize }}",
    "lists of lists from JSON": "{{ ('[' ~ '[],' * 5000000 ~ '[]]')|from_json }}",
    "loops in loops": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "a list that grows by itself": (
        "{% set l = [1] %}{% for a in range(99) %}{{ l.extend(l) }}{% endfor %}"
    ),
    "a list in itself, compared": "{% set l = [] %}{{ l.append(l) }}{{ l == l.copy() }}",
    "macros that call themselves twice": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "a text that doubles": grow("'ab'", "x ~ x", ""),
    "trees, compared": grow("[1]", "[x, x]", "{{ ns.s == ns.t }}"),
    "a key that is a tree": grow("(1,)", "(x, x)", "{{ {ns.s: 1} }}"),
    "texts as names": BIG + "{{ {}[s] }}{% endfor %}",
    "text that is kept": (
        "{% set x %}{% for a in range(99999) %}" + "a" * 100000 + "{% endfor %}{% endset %}"
    ),
    "a long template": "{{ a }}" * 100_000,
    "a text, searched from its end": "{{ ('a' * 2000000).rfind('ab' ~ 'a' * 1000000) }}",
    "keys of one hash": (
        "{% set d = {} %}{% for i in range(90000) %}"
        f"{{{{ d.setdefault(i * {HASHED}, 1) }}}}{{% endfor %}}"
    ),
    "a text as the name of a host": "{{ ('\u00e9' * 900000).encode('punycode') }}",
}


def measure_memory() -> int:
    """Returns the memory of this process in bytes, as far as the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_what_it_may_and_no_more(name: str):
    before, begun = measure_memory(), time.monotonic()
    with suppress(TemplateError), limit_renderings(0.2):
        ChatTemplate(BOMBS[name]).render(HELLO)
    assert time.monotonic() - begun < 30  # on a busy machine; else 2
    assert measure_memory() - before < 100_000_000
    assert ChatTemplate("{{ messages[0].content }}").render(HELLO) == "Hello"


def test_detection_ends(tmp_path: Path, run: Run):
    path = write(tmp_path / "bomb.jinja", BOMBS["loops in loops"])
    code, _, err = run("formats", "detect", path)
    assert code != 0
    assert "the template takes more than 3 seconds" in err
    assert "Traceback" not in err


def test_a_template_that_bombs_on_one_word_fails_that_request_alone():
    bomb = "{% if 'boom' in messages[-1].content %}" + BOMBS["a text that doubles"] + "{% endif %}"
    with scripted("Hello", source=bomb + HERMES) as model:
        assert model.call("hi").content == "Hello"
        with pytest.raises(TemplateLimitError, match="the template takes more memory than it may"):
            model.call("boom")
        assert model.call("hi").content == "Hello"


def test_work_ends_with_its_first_bomb():
    """Another attempt would take as long."""
    loops = ChatTemplate(BOMBS["a text that doubles"] + "{{ messages[0].content }}")
    other = ChatTemplate("{{ messages[0].content }}")

    def go_on() -> None:
        with limit_renderings(1):
            for template in (loops, other):
                with pytest.raises(TemplateLimitError):
                    template.render(HELLO)

    with pytest.raises(TemplateLimitError):
        go_on()
    assert other.render(HELLO) == "Hello"
