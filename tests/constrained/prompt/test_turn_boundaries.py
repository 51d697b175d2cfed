"""Where a vocabulary has no token that ends a turn, the text of the template does."""

from dataclasses import replace
from typing import Any

import pytest

from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary
from constrained.model.reply import Reply
from constrained.prompt.format_selection.generic import CHATML
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.turn_boundaries import find_text_ends
from grammars.turn import ContentDelta
from grammars.wire.formats import HERMES as FORMAT
from tests.scripted_model import BYTES, scripted
from tests.templates import HERMES, WRITE, hermes_call

PLAIN = (
    "{% for message in messages %}{{ message.role.title() }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
BEYOND = "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n"


NAMED = replace(byte_vocabulary(["<|im_end|>"]), end=(257,))


def reply(script: str, source: str = CHATML, turn: bytes = rb"assistant\n", **job: Any) -> Reply:
    with scripted(script, source=source, turn=turn) as model:
        messages = [{"role": "user", "content": "Hi"}]
        whole = model.call(messages, max_tokens=400, **job)
        stream = model.stream(messages, max_tokens=400, **job)
        sent = [event.text for event in stream if isinstance(event, ContentDelta)]
        assert "".join(sent) == whole.content == stream.result.content
        return whole


@pytest.mark.parametrize(
    ("source", "vocabulary", "ends"),
    [
        (CHATML, BYTES, ("\n<|im_end|>", "<|im_end|>", "\n<|im_start|>", "<|im_start|>")),
        (PLAIN, BYTES, ("\nUser:",)),
        (CHATML, NAMED, ()),
        (HERMES, NAMED, ()),
        (PLAIN.replace("\n{% endfor %}", "</s>{% endfor %}"), BYTES, ()),
        ("{{ messages[0].content }}", BYTES, ()),
        ("{{ raise_exception('one question at a time') }}", BYTES, ()),
    ],
)
def test_the_texts_that_end_a_turn(source: str, vocabulary: Vocabulary, ends: tuple[str, ...]):
    assert find_text_ends(ChatTemplate(source), FORMAT, vocabulary) == ends


def test_content_ends_in_front_of_the_end_that_is_spelled():
    done = reply("Hello." + BEYOND)
    assert (done.content, done.finish_reason, done.stop_sequence) == ("Hello.", "stop", None)


def test_content_ends_in_front_of_the_next_question():
    done = reply(" Hello.\nUser: And then?\n", source=PLAIN, turn=rb"Assistant:")
    assert (done.content, done.stop_sequence) == (" Hello.", None)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_calls_end_at_the_end_that_is_spelled(choice: str):
    call = hermes_call("write", '{"text": "a <|im_end|> b"}')
    done = reply(f"{call}\n{BEYOND}", tools=[WRITE], tool_choice=choice)
    assert [one.arguments for one in done.calls] == [{"text": "a <|im_end|> b"}]
    assert (done.content, done.finish_reason) == ("", "tool_calls")
    assert done.usage.completion_tokens < len(call) + 20  # bytes are tokens here


def test_an_answer_may_have_the_end_in_its_text():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    done = reply(
        '{"a": "<|im_end|>"}' + BEYOND,
        response_format={"type": "json_schema", "json_schema": {"schema": schema}},
    )
    assert done.parsed == {"a": "<|im_end|>"}


def test_a_stop_text_of_the_request_is_told():
    done = reply("Hello. Well" + BEYOND, stop=["Well"])
    assert (done.content, done.stop_sequence) == ("Hello. ", "Well")
