"""The members of a JSON object that arrives in pieces."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.parse.member_scan import Begun, Ended, MemberScanner
from tests.schema_strategies import VALUES


@given(st.dictionaries(st.text(), VALUES), st.integers(0, 2**32), st.sampled_from([None, 1]))
def test_members_are_found_in_every_cut(value: dict[str, Any], seed: int, indent: Any) -> None:
    text, rng, scanner = json.dumps(value, indent=indent), random.Random(seed), MemberScanner()
    found: list[Any] = []
    at = 0
    while at < len(text):
        size = rng.randint(1, 6)
        found += scanner.feed(text[at : at + size])
        at += size
    expected = [step for k, v in value.items() for step in (Begun(k), Ended(k, v))]
    assert json.dumps([vars(s) for s in found]) == json.dumps([vars(s) for s in expected])


def test_a_key_is_told_before_its_value() -> None:
    scanner = MemberScanner()
    assert list(scanner.feed('{"a')) == []
    assert list(scanner.feed('": ')) == [Begun("a")]
    assert list(scanner.feed('{"b": [1, "}"')) == []
    assert list(scanner.feed("]}")) == []
    assert list(scanner.feed("}")) == [Ended("a", {"b": [1, "}"]})]


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(ValueError, match=r".*"):
        list(MemberScanner().feed('{"a": nothing}'))
