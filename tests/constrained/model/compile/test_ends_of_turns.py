"""A template may write the token that ends a turn between two calls, or in front of another end.
The model's own ends of generation decide where a turn is over."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from tests.templates import PAINT, PING

FOLDER = Path(__file__).parents[3] / "data" / "invented"


def answer(name: str, text: str, *, ends: Sequence[str], tool_choice: str) -> Reply:
    """What is made of a turn of a model that writes this text, then the first of these ends, which
    all end its generation."""
    vocabulary = byte_vocabulary(ends)
    ids = {name: token for token, name in vocabulary.names.items()}
    vocabulary = replace(vocabulary, end=tuple(ids[end] for end in ends))
    script = [*vocabulary.encode_special(text), ids[ends[0]]]

    def give_logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        logits = np.zeros(len(vocabulary.tokens), np.float32)
        logits[script[min(len(tokens) - start, len(script) - 1)]] = 100
        return logits

    source = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    engine = ScriptedEngine(vocabulary, give_logits, context_length=2**14)
    model = Model(engine, ChatTemplate(source, name=name), draft=False)
    messages = [{"role": "user", "content": "Hello"}]
    turn = model.compile(Job(messages, [PING, PAINT], tool_choice=tool_choice))
    start = len(turn.tokens)
    (reply,) = model.complete([turn], max_tokens=200, sampling=Sampling(temperature=0))
    return reply


@pytest.mark.parametrize("tool_choice", ["auto", "required"])
@pytest.mark.parametrize("ends", [("<|im_end|>",), ("<|im_end|>", "<|endoftext|>")])
def test_a_turn_ends_behind_a_call_in_a_message_of_its_own(
    tool_choice: str, ends: Sequence[str]
) -> None:
    text = 'tool_call\n{"name": "ping", "arguments": {}}'
    reply = answer("role_message", text, ends=ends, tool_choice=tool_choice)
    assert [call.name for call in reply.calls] == ["ping"]
    assert reply.finish_reason == "tool_calls"


def test_a_turn_ends_behind_content_in_a_message_of_its_own() -> None:
    header, call = " to=functions\n", '[{"name": "ping", "arguments": {}}]'
    for text in ("\nIt is so.", f"\nIt is so.<|im_end|>\n<|im_start|>assistant{header}{call}"):
        reply = answer("header_goes_on", text, ends=("<|im_end|>",), tool_choice="auto")
        assert (reply.content.strip(), reply.calls) == ("It is so.", ())
    for choice in ("auto", "required"):
        text = header + call
        reply = answer("header_goes_on", text, ends=("<|im_end|>",), tool_choice=choice)
        assert [call.name for call in reply.calls] == ["ping"]


@pytest.mark.parametrize(
    ("ends", "tail"), [(("<|eot|>",), "</m>"), (("<|eot|>",), ""), (("</m>",), "")]
)
def test_a_turn_ends_at_any_of_its_two_ends(ends: Sequence[str], tail: str) -> None:
    text = '<call>{"name": "ping", "arguments": {}}</call>' + tail
    reply = answer("double_end_all", text, ends=ends, tool_choice="auto")
    assert ([call.name for call in reply.calls], reply.content) == (["ping"], "")
    reply = answer("double_end_all", f"It is so.{tail}", ends=ends, tool_choice="auto")
    assert (reply.content, reply.finish_reason) == ("It is so.", "stop")
