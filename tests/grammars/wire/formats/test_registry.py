"""The registry finds its modules itself."""

from pathlib import Path

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


def test_every_module_is_a_format() -> None:
    modules = {path.stem for path in Path(grammars.wire.formats.__file__).parent.glob("*.py")}
    assert modules - {"__init__"} == {format.name for format in FORMATS}
    for format in FORMATS:
        assert getattr(grammars.wire.formats, format.name.upper()) is format


def test_common_formats_come_first_and_the_generic_one_last() -> None:
    assert (*NATIVE, GENERIC) == FORMATS
    assert NATIVE[:4] == (HERMES, QWEN3_CODER, MISTRAL, LLAMA3_JSON)
    names = [format.name for format in NATIVE[4:]]
    assert names == sorted(names)


def test_what_is_no_format_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NOTHING'"):
        _ = grammars.wire.formats.NOTHING
