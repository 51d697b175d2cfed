"""Strings with a long bound: a short one can be ended, and each of its masks is cheap."""

from typing import Any

import pytest

from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked

CASES: list[tuple[dict[str, Any], str]] = [
    ({"maxLength": 1_000}, "a short text\n</p>"),
    ({"maxLength": 50_000}, "a short text"),
    ({"maxLength": 2_048, "pattern": "^https?://"}, "https://example.com/a?b=c"),
    ({"maxLength": 500, "pattern": r"\S"}, "not blank"),
    ({"minLength": 2, "maxLength": 255, "pattern": r"\.(py|js)$"}, "some/module.py"),
]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize(("bounds", "text"), CASES)
def test_a_short_text_is_ended(format: Format, bounds: dict[str, Any], text: str) -> None:
    string = {"type": "string", **bounds}
    schema = lower({"type": "object", "properties": {"v": string}, "required": ["v"]})
    assert schema.report.checked == ()
    tools = [Tool("f", schema)]
    written = render(Turn(calls=(ToolCall("f", {"v": text}),)), format, tools)
    held = Masked(format, tools, Policy(Choice.REQUIRED), State())
    matcher = held.matcher.fork()
    for token in held.encode(written):
        matcher.mask()
        matcher.commit(token)
    assert matcher.is_complete
    (call,) = parse(written, format, tools, State()).calls
    assert call.arguments == {"v": text}


def test_a_longer_bound_beside_a_pattern_is_checked() -> None:
    schema = lower({"type": "string", "pattern": "^a", "maxLength": 10_000}, only_object=False)
    assert [finding.keyword for finding in schema.report.checked] == ["maxLength"]
    assert not schema.admits("a" * 10_001)
