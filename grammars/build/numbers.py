"""Numbers in Lark."""

from grammars.build.rules import TIGHT, RuleBook, dump
from grammars.errors import SchemaError
from grammars.regex.ranges import express_range
from grammars.schema.nodes import Number

NUMBER = (
    r"/-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?"
    r"([eE](-[0-9]{1,3}|\+?([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9])))?/"
)
"""Bounded in digits, so that every number is a finite double and no integer overflows 64 bits."""

LARGEST = 10**15


def write_number(node: Number, rules: RuleBook) -> str:
    """The numbers of a node."""
    if not node.bounds and not node.integer:
        return rules.terminal(NUMBER, "NUMBER")
    if "multipleOf" in node.bounds:
        spoken = " ".join(node.bounds).lower()
        limits = {"minimum": -LARGEST, "maximum": LARGEST}
        limits = {keyword: limit for keyword, limit in limits.items() if keyword not in spoken}
        kind = {"type": "integer" if node.integer else "number", **TIGHT}
        schema = {**kind, **limits, **node.bounds}
        return rules.define(f"%json {dump(schema)}", "number")
    regex = express_range(node.bounds, integer=node.integer)
    if regex is None:
        raise SchemaError("no number within its bounds can be written", where="")
    return rules.terminal(f"/{regex}/", "NUMBER")
