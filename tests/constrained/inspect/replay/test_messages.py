"""Recorded turns of several messages: what ends one message is no end of the turn where a call of
its own message follows, and its header is no content."""

import pytest

from tests.check_answers import answer_to, calls, judged
from tests.templates import PING

CALL = ("ping", {}, True)


def write_template(header: str, call: str) -> str:
    """A template in which content and each call are messages of their own.

    Args:
        header: after the role.
        call: the call, of the function `f`.
    """
    said = "{% if m.content %}<|assistant|>\n{{ m.content }}<|end|>" + header + "{% endif %}"
    called = "{% for c in m.tool_calls or [] %}{% set f = c.function %}<|assistant|>" + call
    return (
        "{% if tools %}<|tools|>{{ tools|tojson }}<|end|>{% endif %}"
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        + said
        + called
        + "<|end|>"
        + header
        + "{% endfor %}{% else %}<|{{ m.role }}|>\n{{ m.content }}<|end|>"
        + header
        + "{% endif %}{% endfor %}"
    )


ASKS = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
WHOLE_HEADER = write_template("\n", "\n<|tool|>{{ f.name }}\n{{ f.arguments|tojson }}")
WHOLE_HEADER += ASKS.replace("<|assistant|>", "<|assistant|>\n")
RECIPIENT = write_template("", "to={{ f.name }}\n{{ f.arguments|tojson }}") + ASKS


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (WHOLE_HEADER, "It is so.<|end|>\n<|assistant|>\n<|tool|>ping\n{}"),
        (RECIPIENT, "\nIt is so.<|end|><|assistant|>to=ping\n{}"),
    ],
    ids=["whole header", "recipient"],
)
def test_the_header_of_a_call_behind_content_is_no_content(template: str, text: str) -> None:
    for end in ("", "<|end|>"):
        answer = answer_to(text + end, template=template, tools=[PING])
        assert judged(answer) == "acv"
        assert (answer["content"], calls(answer)) == ("It is so.", [CALL])


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (WHOLE_HEADER, "<|tool|>ping\n{}<|end|>\n<|assistant|>\n<|tool|>ping\n{}<|end|>"),
        (RECIPIENT, "to=ping\n{}<|end|><|assistant|>to=ping\n{}<|end|>"),
    ],
    ids=["whole header", "recipient"],
)
def test_each_call_in_a_message_of_its_own_is_read(template: str, text: str) -> None:
    answer = answer_to(text, template=template, tools=[PING])
    assert judged(answer) == "acv"
    assert calls(answer) == [CALL, CALL]


def test_another_message_without_a_call_is_no_part_of_the_turn() -> None:
    text = "It is so.<|end|>\n<|assistant|>\nMore.<|end|>"
    answer = answer_to(text, template=WHOLE_HEADER, tools=[PING])
    assert (answer["content"], answer["tool_calls"]) == ("It is so.", [])
