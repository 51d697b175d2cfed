"""Schemas as pydantic, zod, OpenAPI and the drafts write them, each with instances.

What fits gets through the mask, keys in any order; what does not fit is never delivered, and gets
through the mask only where the report names a keyword as checked.
"""

import json
from typing import Any

import jsonschema_rs
import pytest

from benchmarks.inputs.tool_sets import SAMPLE
from constrained.inspect.replay.schemas import check_schemas


def read_rows(name: str) -> dict[str, dict[str, Any]]:
    """The rows of a file, by their ids."""
    lines = (SAMPLE / name).read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


ROWS = read_rows("schemas_families.jsonl")
GENERATED = read_rows("schemas_generators.jsonl")
LOOSE: dict[str, set[str]] = {
    "pydantic/containers": {"uniqueItems"},
    "pydantic/numbers": {"multipleOf"},
    "oneof/overlap": {"oneOf"},
}
"""Keywords that are checked only, by row; the mask holds everything else."""


@pytest.mark.parametrize("name", ROWS)
def test_what_fits_gets_through(name: str) -> None:
    row = ROWS[name]
    (answer,) = check_schemas([row])
    assert answer["compiles"], answer["error"]
    checked = {finding["keyword"] for finding in answer["checked"]}
    assert checked == LOOSE.get(name, set())
    for test, result in zip(row["tests"], answer["results"], strict=True):
        assert result["delivered"] == test["valid"], test
        assert checked or result["accepted"] == test["valid"], test


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith("openapi")])
def test_the_labels_are_right(name: str) -> None:
    """OpenAPI 3.0 is no draft of JSON Schema; its labels are our own."""
    validator = jsonschema_rs.validator_for(ROWS[name]["schema"], validate_formats=True)
    for test in ROWS[name]["tests"]:
        assert validator.is_valid(test["data"]) == test["valid"], test


@pytest.mark.parametrize("name", GENERATED)
def test_schemas_of_generators_hold(name: str) -> None:
    """As above; the labels are those of jsonschema for Python, which shares no code with ours."""
    (answer,) = check_schemas([GENERATED[name]])
    assert answer["compiles"], answer["error"]
    for test, result in zip(GENERATED[name]["tests"], answer["results"], strict=True):
        assert result["delivered"] == test["valid"], test
        assert answer["checked"] or result["accepted"] == test["valid"], test
