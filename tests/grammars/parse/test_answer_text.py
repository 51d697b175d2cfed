"""JSON answers begin with their value, and stream the numbers that the schema means."""

from typing import Any

import pytest

from constrained.engine.protocol import Sampling
from grammars.parse.output import AnswerText
from grammars.turn import ContentDelta, ReasoningDelta
from tests.scripted_model import scripted


@pytest.mark.parametrize(
    ("written", "left"),
    [(" \r\n\t[1, 2]\n", "[1, 2]\n"), ('{"a": 1}', '{"a": 1}'), ("  7", "7"), (" \n", "")],
)
def test_an_answer_begins_with_its_value(written: str, left: str) -> None:
    for size in (1, 3, 50):
        answer = AnswerText()
        pieces = [written[start : start + size] for start in range(0, len(written), size)]
        read = [one for piece in pieces for one in answer.take([ContentDelta(piece)])]
        assert "".join(one.text for one in read) == left


def test_other_events_pass() -> None:
    assert AnswerText().take([ReasoningDelta(" a")]) == [ReasoningDelta(" a")]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_reply_has_the_same_numbers_whole_and_streamed(is_cut: bool) -> None:
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
