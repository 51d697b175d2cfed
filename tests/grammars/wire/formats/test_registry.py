"""The registry finds its formats itself."""

import pytest

import grammars.wire.formats
from grammars.wire.formats import (
    FORMATS,
    GENERIC,
    HERMES,
    LLAMA3_JSON,
    MISTRAL,
    NATIVE,
    QWEN3_CODER,
)


def test_every_format_is_a_constant_in_capitals() -> None:
    assert len({format.name for format in FORMATS}) == len(FORMATS) > 30
    for format in FORMATS:
        assert getattr(grammars.wire.formats, format.name.upper()) is format


def test_common_formats_come_first_and_the_generic_one_last() -> None:
    assert (*NATIVE, GENERIC) == FORMATS
    assert NATIVE[:4] == (HERMES, QWEN3_CODER, MISTRAL, LLAMA3_JSON)
    names = [format.name for format in NATIVE[4:]]
    assert names == sorted(names)


@pytest.mark.parametrize("name", ["NOTHING", "Hermes"])
def test_what_is_no_format_is_no_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(grammars.wire.formats, name)
