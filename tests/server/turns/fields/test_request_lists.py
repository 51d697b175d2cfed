"""Validation ends with the first mistake."""

from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from server.turns.fields.request_lists import Objects, Texts, stop_at_first

Biases = Annotated[dict[str, float], BeforeValidator(stop_at_first(float))]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Objects, [1] * 9),
        (Texts, [1] * 9),
        (Biases, dict.fromkeys("abcdef", "x")),
    ],
)
def test_one_mistake_is_described(kind: Any, given: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(given)
    assert caught.value.error_count() == 1


def test_the_values_of_a_map_are_those_of_its_type() -> None:
    adapter = TypeAdapter(Biases)
    assert adapter.validate_python({"1": 2, "2": "0.5"}) == {"1": 2.0, "2": 0.5}
    with pytest.raises(ValidationError, match=r"the value of '3' is wrong: .*number"):
        adapter.validate_python({"1": 2, "3": None})
