"""Rows for `benchmarks.schemas` from a checkout of SchemaStore (github.com/SchemaStore/schemastore,
Apache-2.0): schemas of configuration files, and real files as their tests.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs

_SCHEMAS = Path("src", "schemas", "json")
_TESTS = (Path("src", "test"), Path("src", "negative_test"))
_OTHER_DOCUMENT = re.compile(r'"\$ref": "[a-z]')
MAX_SCHEMA = 400_000  # characters
MAX_TEST = 60_000  # characters


def read_schema_store(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the schemas that refer to no other document, with their tests in JSON and TOML.

    A test counts as valid if jsonschema-rs says so: some files of the folder with valid ones are
    not, by formats that are asserted or by the draft.

    Args:
        folder: the checkout.
    """
    for path in sorted((folder / _SCHEMAS).glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8-sig"))
        text = json.dumps(schema)
        if len(text) > MAX_SCHEMA or _OTHER_DOCUMENT.search(text):
            continue
        try:
            validator = jsonschema_rs.validator_for(schema)
        except ValueError:
            continue
        tests = list[dict[str, Any]]()
        for value in _read_tests(folder, path.stem):
            tests.append({"data": value, "valid": validator.is_valid(value)})
        yield {"id": path.stem, "schema": schema, "tests": tests}


def _read_tests(folder: Path, name: str) -> Iterator[Any]:
    for tests in _TESTS:
        for path in sorted((folder / tests / name).glob("*")):
            value = _read_value(path)
            if value is not None:
                yield value


def _read_value(path: Path) -> Any:
    """Returns what the file has; None if it is written in another language, or too large."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        if path.suffix == ".json":
            value = json.loads(text)
        elif path.suffix == ".toml":
            value = tomllib.loads(text)
        else:
            return None
        written = json.dumps(value)  # TOML has dates, which JSON has not
    except (TypeError, ValueError):
        return None
    return value if len(written) <= MAX_TEST else None
