"""Scopes of caches: names that tell salts apart, and do not tell them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.cache_scope import COMMON, name_scope
from constrained.errors import RequestError


@given(st.text(min_size=1), st.text(min_size=1))
def test_each_salt_has_a_name_of_its_own(one: str, other: str) -> None:
    assert (name_scope(one) == name_scope(other)) == (one == other)
    assert name_scope(one) != COMMON


@pytest.mark.parametrize("salt", ["", 1, b"salt", ["salt"], True])
def test_what_is_no_salt_is_refused(salt: Any) -> None:
    with pytest.raises(RequestError) as caught:
        name_scope(salt)
    assert caught.value.where == "/cache_salt"
