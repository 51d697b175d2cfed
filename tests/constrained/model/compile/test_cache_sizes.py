"""What is kept of earlier requests has a limit in bytes, whatever clients send."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.loading import load
from constrained.mask import matcher as mask
from constrained.model.compile import grammar_compiler
from constrained.model.compile.compiler import Compiler
from constrained.model.compile.grammar_compiler import COMPLETERS, GrammarSource
from constrained.prompt.job import Job
from constrained.prompt.tools import shapes
from constrained.prompt.tools.shapes import forget_schemas, read_tools
from grammars.limits import byte_cache
from grammars.limits.byte_cache import (
    MIB,
    ByteCache,
    CacheLimit,
    CacheSize,
    bound_caches,
    measure_shared,
)
from grammars.regex.automaton import STATE_BYTES, Automaton, compile_regexes
from grammars.regex.reader import read
from grammars.regex.texts import Texts
from grammars.turn import Policy, State, Tool
from grammars.turn_grammar.ir import lexer
from tests.constrained.model.compile.one_layer_file import write_one_layer
from tests.templates import HERMES

USER = [{"role": "user", "content": "Paint it."}]
REQUESTS = 60


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    with load(write_one_layer(tmp_path_factory.mktemp("model"), HERMES), threads=1) as model:
        yield model.compiler


@pytest.fixture
def small_schemas() -> Iterator[None]:
    forget_schemas()
    yield
    forget_schemas()


def make_tool(number: int, description: str = "", **schema: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {f"field {number}": schema}}
    return {"name": f"tool_{number}", "description": description, "parameters": parameters}


def test_requests_with_tools_of_their_own(
    hermes: Compiler, monkeypatch: pytest.MonkeyPatch, small_schemas: None
) -> None:
    limit = 100_000
    monkeypatch.setattr(shapes._lower_text.cache, "_limit", CacheLimit(limit))
    monkeypatch.setattr(hermes._grammars.usual._matchers, "_limit", CacheLimit(40 * limit))
    monkeypatch.setattr(hermes._grammars.usual._completers, "_limit", CacheLimit(10 * limit))
    for number in range(REQUESTS):
        hermes.compile(Job(USER, [make_tool(number, type="string", maxLength=9)]))
    sizes = {**hermes.measure_caches(), **measure_shared()}
    assert 0 < sizes["schemas"].bytes <= limit
    assert 0 < sizes["matchers"].bytes <= 40 * limit
    assert 0 < sizes["completers"].bytes <= 10 * limit
    for name in ("schemas", "matchers", "completers"):
        assert sizes[name].count < REQUESTS


def test_tools_that_only_a_grammar_refers_to_count(
    hermes: Compiler, monkeypatch: pytest.MonkeyPatch, small_schemas: None
) -> None:
    """A grammar is small where the mask does not hold what is large in its tools."""
    limit = 8 * MIB
    monkeypatch.setattr(shapes._lower_text.cache, "_limit", CacheLimit(MIB))
    monkeypatch.setattr(hermes._grammars.usual._completers, "_limit", CacheLimit(limit))
    known: list[weakref.ref[Tool]] = []
    for number in range(12):
        tools = read_tools([make_tool(number, description=f"{number}" + MIB * "a")])
        known.append(weakref.ref(tools[0]))
        source = GrammarSource(hermes.format, tools, Policy(), State())
        hermes._grammars.usual.find_completer(source)
        del source
        del tools
    gc.collect()
    size = hermes.measure_caches()["completers"]
    assert 0 < size.bytes <= limit
    alive = sum(tool() is not None for tool in known)
    assert 0 < alive == size.count < 8


def test_all_caches_together_take_what_the_operator_gives_them(
    hermes: Compiler, small_schemas: None
) -> None:
    hermes.forget()
    # A part of what they want: other models of this process may have claimed room, too.
    given = byte_cache._COMMON_LIMIT.claimed // 60
    bound_caches(given)
    try:
        for number in range(REQUESTS):
            choices = [f"{number} {i}" for i in range(40)]
            hermes.compile(Job(USER, [make_tool(number, enum=choices)]))
        sizes = {**hermes.measure_caches(), **measure_shared()}
    finally:
        bound_caches(None)
    assert sum(size.bytes for size in sizes.values()) <= given
    assert COMPLETERS // 240 < sizes["completers"].bytes <= COMPLETERS // 60
    assert all(sizes[name].count for name in ("completers", "schemas", "shared_prefixes"))


def test_large_schemas_take_no_more_room(
    monkeypatch: pytest.MonkeyPatch, small_schemas: None
) -> None:
    monkeypatch.setattr(shapes._lower_text.cache, "_limit", CacheLimit(MIB // 2))
    for number in range(20):
        read_tools([make_tool(number, enum=[f"{number} {i}" for i in range(500)])])
    size = measure_shared()["schemas"]
    assert MIB // 4 < size.bytes <= MIB // 2
    assert size.count < 20


def find_for_lowering(regex: str) -> Automaton | None:
    return Texts((regex,)).automaton


def find_for_completions(regex: str) -> Automaton | None:
    return lexer._compile(read(regex))


@pytest.mark.parametrize(
    ("find", "cache"),
    [
        (find_for_lowering, compile_regexes.cache),
        (find_for_completions, lexer._compile.cache),
    ],
)
def test_automata_are_weighed_with_what_they_have_learnt(
    find: Callable[[str], Automaton | None],
    cache: ByteCache[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache.clear()
    monkeypatch.setattr(cache, "_limit", CacheLimit(500 * STATE_BYTES))
    for number in range(12):
        for _ in range(2):  # the second time it is found, and has learnt
            found = find(f"{number}a{{100,200}}")
            assert found is not None
            assert found.accepts(f"{number}" + "a" * 150)
            assert found.measure() > 100 * STATE_BYTES
    find("11a{100,200}")
    assert 1 <= cache.size.count <= 4
    assert 100 * STATE_BYTES < cache.size.bytes <= 500 * STATE_BYTES


def test_a_grammar_that_has_learnt_much_is_compiled_anew(
    hermes: Compiler, monkeypatch: pytest.MonkeyPatch, small_schemas: None
) -> None:
    hermes.forget()
    job = Job(USER, [make_tool(1, type="string")], tool_choice="required")
    first = hermes.compile(job).make_input().matcher
    again = hermes.compile(job).make_input().matcher
    assert first is not None
    assert again is not None
    assert again._learnt is first._learnt
    assert hermes.measure_caches()["matchers"].count == 1
    largest = int(grammar_compiler.LARGEST * grammar_compiler.MATCHERS)
    monkeypatch.setattr(mask, "MASK_BYTES", largest)
    before = first.measure()
    allowed = int(first.mask().argmax())
    first.commit(allowed)
    first.compute_mask()
    assert first.measure() >= before + largest
    assert hermes.compile(job) is not None  # finds that one, and forgets it
    assert hermes.measure_caches()["matchers"] == CacheSize()
    monkeypatch.undo()
    anew = hermes.compile(job).make_input().matcher
    assert anew is not None
    assert anew._learnt is not first._learnt
    assert first.mask().any(), "a turn under way goes on"


def test_model_metrics_tell_what_is_kept(tmp_path: Path) -> None:
    with load(write_one_layer(tmp_path, HERMES), threads=1) as model:
        before = model.metrics().caches
        assert set(before) == {"matchers", "completers", "turns", "shared_prefixes"}
        model.compile(Job(USER, [make_tool(1, type="string")], tool_choice="required"))
        caches = model.metrics().caches
    assert [caches[name].count for name in ("matchers", "completers")] == [1, 1]
    assert caches["matchers"].bytes > mask.COMPILED_BYTES
