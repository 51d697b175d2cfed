"""The measurements of exactness: they find what is wrong, and nothing is wrong with the sample."""

import json
import random
import shutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import exact, patterns
from benchmarks.inputs.drawn_patterns import draw_pattern, draw_texts
from benchmarks.inputs.smaller_cases import make_smaller
from benchmarks.inputs.spelled_instances import WAYS, write_instance
from grammars.schema.lowering.lower import lower

OPTIONS = {
    "model": "demo",
    "walks": 2,
    "steps": 6,
    "seed": 0,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b"]},
        "size": {"type": "integer", "minimum": 0, "maximum": 20},
    },
    "required": ["kind"],
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # A text may hold any character but half of a surrogate pair.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("aé/", max_size=3), inner),
    max_leaves=6,
)


@given(VALUES, st.sampled_from(WAYS), st.integers(0, 99))
def test_every_spelling_is_the_same_value(value: Any, way: str, seed: int) -> None:
    assert json.loads(write_instance(value, way, random.Random(seed))) == value


def try_out(schema: Any) -> exact.Bench:
    bench = exact.Bench({"id": "a test", "schema": schema, "options": OPTIONS})
    bench.run()
    return bench


def test_an_exact_mask_has_no_errors() -> None:
    bench = try_out(SCHEMA)
    assert bench.failures == []
    counts = bench.counts
    assert counts["written plain"] > 5
    assert counts["bytes tried"] > 20
    assert counts["changed"] > 5
    assert counts["tokens that differ"] == 0


@pytest.mark.parametrize(
    ("keyword", "change", "kind"),
    [
        ("kind", {"enum": ["a"]}, "refused plain"),
        ("kind", {"enum": ["a"]}, "completed"),
        ("kind", {"enum": ["a", "b", "c"]}, "invalid written"),
    ],
)
def test_a_wrong_mask_is_found(
    monkeypatch: pytest.MonkeyPatch, keyword: str, change: Any, kind: str
) -> None:
    wrong = {**SCHEMA, "properties": {**SCHEMA["properties"], keyword: change}}
    lowered = lower(wrong, close=False, only_object=False)
    monkeypatch.setattr(exact.Bench, "_lower", staticmethod(lambda source: lowered))
    monkeypatch.setitem(OPTIONS, "walks", 20)
    assert kind in {found for found, *_ in try_out(SCHEMA).failures}


def test_a_case_becomes_small() -> None:
    def is_wrong(schema: Any, value: Any) -> bool:
        return schema["maximum"] == 20 and value == 21

    value = {"kind": "a", "size": 21}
    assert make_smaller(SCHEMA, value, is_wrong) == ({"maximum": 20}, 21)


@pytest.mark.parametrize(
    "pattern", ["^a{2,3}$", "^(?=.*[A-Z])(?!x)[a-zA-Z]{3,}$", r"(\d)-\1", "[b"]
)
def test_texts_are_made_for_any_pattern(pattern: str) -> None:
    texts = draw_texts(pattern, 24, random.Random(0))
    assert len(texts) > 12
    assert len(set(texts)) == len(texts)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_masks_of_patterns_agree_with_node() -> None:
    rng = random.Random(1)
    drawn = [draw_pattern(rng) for _ in range(12)]
    found = [patterns.try_out((pattern, 24, 0)) for pattern in drawn]
    counts = [trial["counts"] for trial in found]
    assert sum(count.get("texts", 0) for count in counts) > 150
    assert not [count for count in counts if patterns.TAKEN in count or patterns.MISSED in count]
