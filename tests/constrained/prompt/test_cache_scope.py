"""Scopes of caches: names that tell salts apart, and what is found under them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import RequestError
from constrained.prompt.cache_scope import COMMON, name_scope
from constrained.prompt.job import Job
from constrained.prompt.tools.shapes import read_entries
from tests.scripted_model import scripted


@given(st.text(min_size=1), st.text(min_size=1))
def test_each_salt_has_a_name_of_its_own(one: str, other: str) -> None:
    assert (name_scope(one) == name_scope(other)) == (one == other)
    assert name_scope(one) != COMMON


@pytest.mark.parametrize("salt", ["", 1, b"salt", ["salt"], True])
def test_what_is_no_salt_is_refused(salt: Any) -> None:
    with pytest.raises(RequestError) as caught:
        name_scope(salt)
    assert caught.value.where == "/cache_salt"


def test_turns_and_prompts_are_found_by_the_same_salt_alone() -> None:
    messages: list[Any] = [{"role": "user", "content": "Hello to you. " * 10}]
    with scripted("Good morning. " * 10, "Yes.") as model:
        first = model.call(messages, cache_salt="a")
        messages += [first.message(), {"role": "user", "content": "Really?"}]

        def reuse(salt: str | None, *, cache_prompt: bool = True) -> int:
            job = Job(messages, cache_salt=salt, cache_prompt=cache_prompt)
            return model.compile(job).prompt.reuse.tokens

        assert reuse("a") > len(first.content)
        assert [reuse("b"), reuse(None), reuse("a", cache_prompt=False)] == [0, 0, 0]
        for salt in ("b", None):
            assert model.call(messages, cache_salt=salt).usage.cached_tokens == 0
        assert model.call(messages, cache_salt="a").usage.cached_tokens >= reuse("a")
        assert model.call(messages, cache_salt="a", cache_prompt=False).usage.cached_tokens == 0


def test_a_text_without_template_has_a_scope_as_well() -> None:
    with scripted("Hi") as model:

        def scope(**options: Any) -> str | None:
            return model.compile_text("Hello", **options).plan.scope

        names = [scope(), scope(cache_salt="a"), scope(cache_salt="b"), scope(cache_prompt=False)]
        assert names == [COMMON, name_scope("a"), name_scope("b"), None]


@pytest.mark.parametrize("salt", ["", 7])
def test_python_callers_get_the_error_too(salt: Any) -> None:
    with scripted("Hi") as model:
        for ask in (
            lambda: model.call("Hello", cache_salt=salt),
            lambda: model.compile_text("Hello", cache_salt=salt),
            lambda: model.compile(Job([{"role": "user", "content": "Hi"}], cache_salt=salt)),
        ):
            with pytest.raises(RequestError, match="not text") as caught:
                ask()
            assert caught.value.where == "/cache_salt"


def test_schemas_are_lowered_once_for_each_scope() -> None:
    tool = {"name": "paint", "parameters": {"type": "object", "properties": {"red": {}}}}
    (entry,) = read_entries([tool])
    one, again, other = (entry.lower(scope=scope).schema for scope in ("a", "a", "b"))
    assert one is again
    assert one is not other
