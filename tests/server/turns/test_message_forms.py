"""What a chat template loses or refuses is written in another form, and the reply says so."""

from typing import Any

import pytest

from constrained.prompt.template.conversation_forms import ConversationForm
from tests.scripted_model import scripted
from tests.server.running_server import running

Json = dict[str, Any]
FIRST_ONLY = (
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}<|im_start|>{{ m.role }}\n"
    "{{ m.content or '' }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
USERS_ONLY = FIRST_ONLY.replace("m.role != 'system' or loop.first", "m.role == 'user'")
LATE: list[Json] = [
    {"role": "system", "content": "HEAD"},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "system", "content": "SECOND"},
    {"role": "user", "content": "Well?"},
]
BODIES: dict[str, Json] = {
    "/v1/chat/completions": {"messages": LATE},
    "/v1/responses": {"input": LATE},
    "/v1/messages": {"messages": LATE[1:], "system": "HEAD", "max_tokens": 50},
    "/api/chat": {"messages": LATE, "stream": False},
}


@pytest.mark.parametrize("path", BODIES)
def test_the_reply_names_the_form(path: str) -> None:
    with running(scripted("Hi.", source=FIRST_ONLY)) as client:
        response = client.post(path, json=BODIES[path])
        traced = client.post("/v1/chat/completions", json={"messages": LATE, "trace": True}).json()
        prompt = traced["trace"]["prompt"]
    assert response.status_code == 200
    assert response.headers["X-Message-Forms"] == "system_as_user"
    notes = response.json()["constrained"]
    assert notes["message_forms"] == [ConversationForm.SYSTEM_AS_USER]
    assert "<|im_start|>user\n<system>\nSECOND\n</system><|im_end|>" in prompt


def test_a_conversation_that_is_written_as_it_is_has_no_note() -> None:
    with running(scripted("Hi.", source=FIRST_ONLY)) as client:
        response = client.post("/v1/chat/completions", json={"messages": LATE[:3]})
    assert "X-Message-Forms" not in response.headers
    assert "message_forms" not in response.json().get("constrained", {})


def test_what_no_form_carries_is_an_error_with_its_place() -> None:
    with running(scripted("Hi.", source=USERS_ONLY)) as client:
        response = client.post("/v1/chat/completions", json={"messages": LATE[:3]})
    assert response.status_code == 400
    assert "messages/2/content" in response.text
    assert "leaves out this message" in response.text
