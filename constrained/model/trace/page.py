"""Traces as one HTML page that loads nothing from elsewhere."""

import json
from collections.abc import Sequence
from importlib.resources import files

from grammars.schema.json_values import Json

PLACEHOLDER = "/*TRACES*/[]"


def write_page(traces: Sequence[Json]) -> str:
    # Inside of a script, only "</script" and "<!--" mean something: no "<" is left.
    data = json.dumps(traces, ensure_ascii=True).replace("<", "\\u003c")
    return read_page().replace(PLACEHOLDER, data)


def read_page() -> str:
    """Returns the page without traces: they belong in the place of `PLACEHOLDER`."""
    return files("constrained.model.trace").joinpath("page.html").read_text(encoding="utf-8")
