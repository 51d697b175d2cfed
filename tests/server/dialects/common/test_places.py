"""The places of mistakes in bodies: JSON pointers into what was sent, in all dialects."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from server import app as app  # which knows all paths, and so their bodies
from server.dialects.chat.request import ChatRequest
from server.dialects.common.body import validate_fields
from server.dialects.messages.request import CountRequest, MessagesRequest
from server.dialects.responses.request import ResponsesRequest
from server.errors import HttpError
from server.http.openapi import BODIES

BRANCHES = ("str", "list[int]", "list[str]", "dict[str,any]", "dict[str,float]", "list[any]", "0")
"""Names that pydantic has for branches of unions; as keys of a body they are names like others."""
WHOLE: dict[type[BaseModel], dict[str, Any]] = {
    ChatRequest: {"messages": [{"role": "user", "content": "Hi"}]},
    CountRequest: {"messages": [{"role": "user", "content": "Hi"}]},
    MessagesRequest: {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    ResponsesRequest: {"input": "Hi"},
}
PLACES: list[tuple[type[BaseModel], dict[str, Any], str]] = [
    (ChatRequest, {}, "/messages"),
    (ChatRequest, {"messages": None}, "/messages"),
    (ChatRequest, {"stop": ["b", 1]}, "/stop/1"),
    (ChatRequest, {"stop": {"str": ["b"]}}, "/stop"),
    (
        ChatRequest,
        {"structured_outputs": {"choice": ["b", 1]}},
        "/structured_outputs/choice/1",
    ),
    (ChatRequest, {"structured_outputs": {"json": "print('run')"}}, "/structured_outputs/json"),
    (ChatRequest, {"structured_outputs": {"json": 1}}, "/structured_outputs/json"),
    (ChatRequest, {"tool_choice": 7}, "/tool_choice"),
    (ChatRequest, {"tools": [{}, 1]}, "/tools/1"),
    (ChatRequest, {"logit_bias": {"dict[str]": "x"}}, "/logit_bias/dict[str]"),
    (ChatRequest, {"logit_bias": 3}, "/logit_bias"),
    (ChatRequest, {"stop": [1]}, "/stop/0"),
    (
        ChatRequest,
        {"stream_options": {"include_usage": "perhaps"}},
        "/stream_options/include_usage",
    ),
    (ResponsesRequest, {"input": [{}, "a"]}, "/input/1"),
    (ResponsesRequest, {"input": {"str": "a"}}, "/input"),
    (ResponsesRequest, {"tool_choice": ["str"]}, "/tool_choice"),
    (MessagesRequest, {"system": ["a"]}, "/system/0"),
    (MessagesRequest, {"system": {"str": "a"}}, "/system"),
    (MessagesRequest, {"thinking": {}}, "/thinking/type"),
    (MessagesRequest, {"tool_choice": {"type": "some"}}, "/tool_choice/type"),
]


def find_mistake(kind: type[BaseModel], body: dict[str, Any]) -> HttpError | None:
    try:
        validate_fields(body, kind)
    except HttpError as error:
        return error
    return None


@pytest.mark.parametrize(("kind", "fields", "where"), PLACES)
def test_a_mistake_has_its_place(kind: type[BaseModel], fields: dict[str, Any], where: str) -> None:
    body = {**WHOLE[kind], **fields} if fields else {}
    error = find_mistake(kind, body)
    assert error is not None
    assert error.where == where
    assert error.message.startswith(where[1:].replace("/", ".") + ": ")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", *BRANCHES]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(BRANCHES), inner),
    max_leaves=6,
)


def can_be_followed(pointer: str, body: Any) -> bool:
    """True if a pointer leads to something in the body, or to a field that one of its objects
    lacks."""
    steps = pointer.split("/")[1:]
    for number, escaped in enumerate(steps, start=1):
        step = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(body, list):
            if not step.isdecimal() or int(step) >= len(body):
                return False
            body = body[int(step)]
        elif isinstance(body, dict):
            if step not in body:
                return number == len(steps) and step not in BRANCHES
            body = body[step]
        else:
            return False
    return True


@pytest.mark.parametrize("kind", [*BODIES.values()])
@settings(max_examples=40)
@given(data=st.data())
def test_every_place_is_one_of_the_body(kind: type[BaseModel], data: st.DataObject) -> None:
    names = st.sampled_from(list(kind.model_fields))
    body = {**WHOLE.get(kind, {}), **data.draw(st.dictionaries(names, VALUES, max_size=3))}
    error = find_mistake(kind, body)
    if error is not None:
        assert can_be_followed(error.where or "", body), error
