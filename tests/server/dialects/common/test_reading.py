"""Requests are read in the lane where their reading belongs."""

from typing import Any

import pytest
from pydantic import BaseModel

from server.dialects.chat.request import ChatRequest
from server.dialects.common.reading import _is_quick
from server.dialects.messages.request import MessagesRequest
from server.dialects.ollama.request import OllamaChatRequest
from server.dialects.responses.request import ResponsesRequest

SCHEMA = {"type": "object"}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ChatRequest, {"response_format": FORMAT}),
        (ChatRequest, {"json_schema": SCHEMA}),
        (ChatRequest, {"structured_outputs": {"json": SCHEMA}}),
        (ChatRequest, {"grammar": 'start: "a"'}),
        (ChatRequest, {"regex": "a"}),
        (ChatRequest, {"choice": ["a"]}),
        (ChatRequest, {"guided_json": SCHEMA}),
        (ChatRequest, {"guided_regex": "a"}),
        (ChatRequest, {"guided_choice": ["a"]}),
        (ChatRequest, {"guided_grammar": 'start: "a"'}),
        (MessagesRequest, {"max_tokens": 1, "output_config": {"format": FORMAT}}),
        (MessagesRequest, {"max_tokens": 1, "output_format": FORMAT}),
        (ResponsesRequest, {"input": "Hi", "text": {"format": FORMAT}}),
        (OllamaChatRequest, {"format": SCHEMA}),
    ],
)
def test_what_an_answer_has_to_be_takes_its_turn(kind: type[BaseModel], fields: Any) -> None:
    given = {"model": "m", "messages": MESSAGES}
    assert _is_quick(kind.model_validate({"max_tokens": 1, "input": "Hi", **given}))
    assert not _is_quick(kind.model_validate({**given, **fields}))
