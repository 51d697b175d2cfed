"""JSON answers begin with their value, and have the numbers that the schema means."""

from typing import Any

import pytest

from constrained.engine.protocol import Sampling
from grammars.lowering.lower import lower
from grammars.parse.answer_text import AnswerText
from grammars.turn import ContentDelta, ReasoningDelta
from tests.grammars.parse.test_number_normaliser import CASES, EITHER, SCHEMA
from tests.scripted_model import scripted

ANSWERS: list[tuple[Any, str, str]] = [(SCHEMA, *case) for case in CASES]
ANSWERS += [
    ({"type": "integer"}, "7.0", "7"),
    ({"type": "integer"}, " -0.0 ", "0 "),
    ({"type": "array", "items": {"type": "integer"}}, " \r\n\t[1e1, 2]\n", "[10, 2]\n"),
    (EITHER, '{"size": 2.0, "kind": "square"}', '{"size": 2, "kind": "square"}'),
    # A reply that is cut keeps what was written.
    (EITHER, '{"size": 2.0, "kind": "squ', '{"size": 2.0, "kind": "squ'),
    ({"type": "integer"}, "7.", "7."),
    (SCHEMA, "No. 2.0 is not JSON", "No. 2.0 is not JSON"),
    ({"type": "string"}, '"2.0"', '"2.0"'),
]


@pytest.mark.parametrize(("schema", "written", "meant"), ANSWERS)
def test_an_answer_is_written_as_it_is_meant(schema: Any, written: str, meant: str) -> None:
    for size in (1, 3, 50):
        numbers = AnswerText(lower(schema, only_object=False))
        pieces = [written[start : start + size] for start in range(0, len(written), size)]
        read = [one for piece in pieces for one in numbers.take([ContentDelta(piece)])]
        read += numbers.close()
        assert "".join(one.text for one in read) == meant


def test_other_events_pass() -> None:
    numbers = AnswerText(lower({"type": "integer"}, only_object=False))
    assert numbers.take([ReasoningDelta("2.0")]) == [ReasoningDelta("2.0")]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_reply_has_them_whole_and_streamed(is_cut: bool) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "x": {"type": "number"}},
        "required": ["n", "x"],
    }
    sampling = Sampling(temperature=0)
    with scripted('{"n": 7, "x": 7.0}') as model:
        format = {"type": "json_schema", "json_schema": {"schema": schema}}
        options: dict[str, Any] = {"response_format": format, "sampling": sampling}
        if is_cut:
            options["stop"] = [".0}"]
        stream = model.stream("Hi", **options)
        pieces = [event.text for event in stream if isinstance(event, ContentDelta)]
        expected = '{"n": 7, "x": 7' if is_cut else '{"n": 7, "x": 7.0}'
        assert "".join(pieces) == stream.result.content == expected
        assert model.call("Hi", **options).content == expected
