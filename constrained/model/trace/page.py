"""A trace as one HTML page that loads nothing from elsewhere."""

import json
from importlib.resources import files

from grammars.schema.json_values import Json

PLACEHOLDER = "/*TRACE*/null"


def write_page(trace: Json) -> str:
    """Returns the page that shows a trace, which is as `TurnTrace.to_json` writes it."""
    # Inside of a script, only "</script" and "<!--" mean something: no "<" is left.
    data = json.dumps(trace, ensure_ascii=True).replace("<", "\\u003c")
    return read_page().replace(PLACEHOLDER, data)


def read_page() -> str:
    """Returns the page without a trace, which belongs in the place of `PLACEHOLDER`."""
    return files("constrained.model.trace").joinpath("page.html").read_text(encoding="utf-8")
