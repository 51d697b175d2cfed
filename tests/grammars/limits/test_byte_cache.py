"""Caches with a limit in bytes."""

import gc
import json
import tracemalloc
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import given

from grammars.limits.byte_cache import (
    OVERHEAD,
    ByteCache,
    CacheLimit,
    CacheSize,
    bound_caches,
    keep_results,
    measure_bytes,
    measure_shared,
)
from grammars.schema.lowering.lower import lower

LIMIT = 10 * OVERHEAD


@dataclass(eq=False)
class Growing:
    """A value that learns."""

    bytes: int = 0


def weigh(value: Growing) -> int:
    return value.bytes


steps = st.lists(
    st.tuples(st.sampled_from(["keep", "find", "grow"]), st.integers(0, 9), st.integers(0, LIMIT)),
    max_size=40,
)


@given(steps)
def test_there_is_never_more_than_there_is_room_for(taken: list[tuple[str, int, int]]) -> None:
    """Against a model: the values in the order in which they were wanted, the last ones kept."""
    cache = ByteCache[Growing](LIMIT, weigh, largest=0.5)
    model = OrderedDict[int, Growing]()
    values = {key: Growing() for key in range(10)}

    def weigh_kept(key: int) -> int:
        return OVERHEAD + measure_bytes(key) + model[key].bytes

    def settle() -> None:
        for key in [*model]:
            if weigh_kept(key) > LIMIT // 2:
                del model[key]
        while sum(map(weigh_kept, model)) > LIMIT:
            model.popitem(last=False)

    for step, key, size in taken:
        if step == "keep":
            values[key] = model[key] = Growing(size)
            model.move_to_end(key)
            cache.keep(key, values[key])
        elif step == "grow":
            values[key].bytes += size
        else:
            found = cache.find(key, None)
            assert found is model.get(key)
            if found is not None:
                model.move_to_end(key)
        settle()
        total = sum(map(weigh_kept, model))
        assert cache.size == CacheSize(len(model), total)
        assert total <= LIMIT


def test_what_grows_without_being_found_again_goes_too() -> None:
    cache = ByteCache[Growing](LIMIT, weigh)
    values = weakref.WeakSet[Growing]()
    for number in range(100):
        value = Growing()
        values.add(value)
        cache.keep(number, value)
        value.bytes = LIMIT // 4
    gc.collect()
    assert 1 <= len(values) <= 5, "four have room, and the last one was small when it came"


def test_a_large_value_goes_alone() -> None:
    cache = ByteCache[str](100_000)
    for number in range(5):
        cache.keep(number, "x" * 1_000)
    cache.keep("large", "x" * 200_000)
    assert cache.find("large", None) is None
    assert cache.size.count == 5
    cache.clear()
    assert cache.size == CacheSize()


def test_caches_share_what_all_of_them_may_take() -> None:
    limits = [CacheLimit(3 << 60), CacheLimit(1 << 60)]  # far more than the caches of the package
    assert [limit.bytes for limit in limits] == [3 << 60, 1 << 60]
    try:
        bound_caches(4_000)
        assert [limit.bytes for limit in limits] == [2_999, 999]
        del limits[0]  # with its model, say
        assert limits[0].bytes == 3_999
        cache = ByteCache[str](1 << 60)
        cache.keep(1, "x" * 1_000)
        assert cache.size.count == 1
        bound_caches(0)
        cache.keep(2, "")
        assert cache.size == CacheSize()
    finally:
        bound_caches(None)


@dataclass
class Node:
    name: str
    parts: list["Node"] = field(default_factory=list["Node"])


def test_what_is_shared_counts_once_and_what_is_common_never() -> None:
    text = "x" * 10_000
    assert 10_000 < measure_bytes([text, text, {text: text}]) < 11_000
    node = Node(text)
    node.parts.append(node)  # a circle
    assert 10_000 < measure_bytes(node) < 11_000
    assert measure_bytes([Node, json, json.dumps]) < 1_000


def test_schemas_are_measured_as_python_counts_them() -> None:
    properties = {f"name {i}": {"type": "string", "maxLength": 9 + i} for i in range(300)}
    text = json.dumps({"type": "object", "properties": properties})
    lower(json.loads(text))  # what is computed once is there
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        schema = lower(json.loads(text))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 < measure_bytes(schema) / (after - before) < 1.5


def test_results_are_kept_but_not_failures() -> None:
    calls = list[str]()

    @keep_results("test", 10_000)
    def double(text: str, times: int = 2) -> str | None:
        calls.append(text)
        if not text:
            raise ValueError("nothing to double")
        return text * times if times else None

    assert [double("a"), double("a"), double("a", times=3)] == ["aa", "aa", "aaa"]
    assert double("a", times=0) is double("a", times=0) is None
    assert calls == ["a"] * 3
    for _ in range(2):
        with pytest.raises(ValueError, match="nothing"):
            double("")
    assert calls == ["a"] * 3 + [""] * 2
    assert measure_shared()["test"].count == 3
    double.cache.clear()
    assert measure_shared()["test"] == CacheSize()
