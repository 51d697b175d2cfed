"""What the repository says of the chat templates of llama.cpp."""

from pathlib import Path

import pytest

import grammars.wire.formats
from benchmarks.templates import Row, describe_all, write_markdown
from tests.real_templates import NO_CALLS, require_models_directory

TABLE = Path(grammars.wire.formats.__file__).parent / "README.md"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return describe_all(require_models_directory() / "templates")


def test_the_table_is_up_to_date(rows: list[Row]) -> None:
    assert TABLE.read_text(encoding="utf-8") == write_markdown(rows)


def test_the_generic_format_is_for_templates_without_calls(rows: list[Row]) -> None:
    shown = {row.template for row in rows if row.origin == "shown"}
    assert shown == {"LFM2-8B-A1B", "ibm-granite-granite-3.3-2B-Instruct"}
    generic = {row.template for row in rows if row.origin == "generic"}
    assert generic == NO_CALLS - shown


def test_turns_of_every_template_are_read(rows: list[Row]) -> None:
    assert [row.template for row in rows if not row.verified] == []
