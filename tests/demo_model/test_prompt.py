"""The prompts of training are those that the product gives the model."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="extra train")
pytest.importorskip("tokenizers", reason="extra train")

from constrained import load
from constrained.prompt.job import Job
from examples.demo_model.conversations import (
    Conversation,
    draw_conversation,
    training_source,
)
from examples.demo_model.dialogue import cut, render
from examples.demo_model.exam import draw_questions
from examples.demo_model.export import export
from examples.demo_model.feed import Encoder
from examples.demo_model.network import Network, Shape
from examples.demo_model.vocabulary import load_vocabulary


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory):
    network = Network(Shape(n_vocab=len(load_vocabulary().tokens), n_layer=1))
    path = export(network, tmp_path_factory.mktemp("model") / "m.gguf")
    with load(Path(path), threads=1) as model:
        yield model


@pytest.mark.parametrize("group", ["seen", "unseen", "handwritten", "results"])
def test_prompts_of_the_product(model, group: str):
    encoder = Encoder()
    for question in draw_questions(group, 12):
        turn = model.compile(Job(question.messages, question.tools))
        ours = render(question.messages, question.tools, thinking=False, opened=True)
        assert turn.prompt.text == ours
        assert list(turn.tokens) == encoder.encode(ours)
        assert turn.format.name == "hermes"


def test_histories(model):
    encoder = Encoder()
    source = training_source()
    for seed in range(25):
        conversation = draw_conversation(source, seed)
        pieces = list(cut(conversation))
        kwargs = {"enable_thinking": True} if conversation.thinking else {}
        for number, message in enumerate(conversation.messages):
            if message["role"] != "assistant":
                continue
            place = sum(m["role"] == "assistant" for m in conversation.messages[:number])
            job = Job(conversation.messages[:number], conversation.tools, template_kwargs=kwargs)
            turn = model.compile(job)
            ours = pieces[: 2 * place + 1]
            assert turn.prompt.text == "".join(text for text, _ in ours)
            assert list(turn.tokens) == [id for text, _ in ours for id in encoder.encode(text)]


def test_turns_are_legal(model):
    """The grammar takes what the model is trained to write, token by token."""
    encoder = Encoder()
    for question in draw_questions("handwritten", 100):
        messages = [{"role": "user", "content": question.text}]
        turn = model.compile(Job(messages, question.tools))
        shown = render([*messages, question.message], question.tools, thinking=False, opened=False)
        tokens = encoder.encode(shown[len(turn.prompt.text) :].removesuffix("\n"))
        assert turn.matcher is not None
        assert turn.matcher.fork().count_accepted(tokens) == len(tokens), shown


def test_targets():
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "", "reasoning_content": "Yes.", "tool_calls": [call]},
        {"role": "tool", "content": "1"},
        {"role": "assistant", "content": "Done.", "reasoning_content": "I have the result."},
    ]
    written = [text for text, target in cut(Conversation(tools, messages, True)) if target]
    assert written == [
        'Yes.\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
        "<|im_end|>",
        "I have the result.\n</think>\n\nDone.<|im_end|>",
    ]
