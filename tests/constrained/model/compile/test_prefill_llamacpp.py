"""Turns that go on with a text, on llama.cpp and on real vocabularies."""

from collections.abc import Iterator
from typing import Any

import pytest

from constrained import Model, Sampling, load
from constrained.model.compile.compiler import Compiler
from constrained.model_files import embedded
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import ContentDelta, RegexAnswer
from tests.constrained.engine.vocabulary.vocabulary_file import vocabulary_of
from tests.real_templates import require_models_directory
from tests.templates import HERMES, PING

GREEDY = Sampling(temperature=0)
WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "Forecast for a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "day": {"type": "string"}},
        "required": ["city"],
    },
}
QUESTION = {"role": "user", "content": "Thanks!"}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with load(embedded.PATH, threads=1) as model:
        yield model


def begun(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def test_every_cut_of_its_own_reply_goes_on_with_the_rest(model: Model) -> None:
    """Where the tokens of the text, but for the last one, are those of the reply."""
    options: Any = {"sampling": GREEDY, "max_tokens": 200}
    whole = model.call([QUESTION], [WEATHER], **options).content
    encode = model.engine.vocabulary.encode
    tokens = encode(whole)
    parts = [encode(whole[:at]) for at in range(1, len(whole) + 1)]
    cuts = [at for at, part in enumerate(parts, 1) if part[:-1] == tokens[: len(part) - 1]]
    assert len(cuts) > 5
    for at in cuts:
        stream = model.stream([QUESTION, begun(whole[:at])], [WEATHER], prefill=True, **options)
        told = "".join(event.text for event in stream if isinstance(event, ContentDelta))
        assert told == stream.result.content
        assert whole[:at] + told == whole, at


def test_its_reasoning_goes_on(model: Model) -> None:
    question = {"role": "user", "content": "What's the weather in Paris tomorrow?"}
    thinking = {"enable_thinking": True}
    options: Any = {"sampling": GREEDY, "max_tokens": 200, "template_kwargs": thinking}
    whole = model.call([question], [WEATHER], **options)
    assert whole.reasoning
    half = whole.reasoning[: len(whole.reasoning) // 2]
    messages = [question, begun("", reasoning_content=half)]
    reply = model.call(messages, [WEATHER], prefill=True, **options)
    assert half + reply.reasoning == whole.reasoning
    assert [call.arguments for call in reply.calls] == [call.arguments for call in whole.calls]
    assert reply.usage.prompt_tokens > whole.usage.prompt_tokens


def test_the_conversation_goes_on_from_the_same_tokens(model: Model) -> None:
    options: Any = {"sampling": GREEDY, "max_tokens": 200}
    reply = model.call([QUESTION, begun("You're we")], [WEATHER], prefill=True, **options)
    assert reply.finish_reason == "stop"
    follow = [QUESTION, begun("You're we" + reply.content), QUESTION]
    turn = model.compile(Job(follow, [WEATHER]))
    assert turn.prompt.reuse.turn
    usage = model.call(follow, [WEATHER], **options).usage
    last = reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert usage.cached_tokens >= last - 2


def test_an_answer_goes_on_inside_a_word(model: Model) -> None:
    words = ("afternoon", "evening", "morning")
    answer = RegexAnswer("(good|bad) (" + "|".join(words) + ")")
    for text in ("g", "good a", "good af", "good afternoo", "bad m", "bad morning"):
        job = Job([QUESTION, begun(text)], answer=answer, prefill=True)
        reply = model.complete([model.compile(job)], sampling=GREEDY)[0]
        assert (text + reply.content).split()[-1] in words
        assert reply.finish_reason == "stop"


def test_raw_prompts(model: Model) -> None:
    job = Job([QUESTION], [WEATHER])
    turn = model.compile(job)
    raw = model.compile_text(turn.prompt.text)
    assert raw.tokens == turn.tokens
    as_ids = model.compile_text([*turn.tokens])
    replies = model.complete([turn, raw, as_ids], sampling=GREEDY, max_tokens=100)
    assert replies[1].content == replies[2].content == replies[1].text
    assert replies[0].content == replies[1].content.removeprefix("<think>\n\n</think>\n\n")


@pytest.mark.parametrize("name", ["llama-spm", "phi-3", "qwen2", "llama-bpe", "gemma-4"])
def test_prefixes_in_real_vocabularies(name: str) -> None:
    vocabulary = vocabulary_of(require_models_directory() / f"ggml-vocab-{name}.gguf")
    compiler = Compiler(vocabulary, ChatTemplate(HERMES))
    user = {"role": "user", "content": "Hi."}
    special = vocabulary.control | set(vocabulary.end)
    names = [vocabulary.names[token] for token in vocabulary.end if token in vocabulary.names]
    for text in ("Hello, wor", " 日本🙂", "a \n\n", f"x{names[0]}y", " ", "🙂"):
        for tools in ([], [PING]):
            plain = compiler.compile(Job([user], tools))
            job = Job([user, begun(text, reasoning_content="Hm, wh")], tools, prefill=True)
            turn = compiler.compile(job)
            head = vocabulary.text(turn.prefill.tokens).decode()
            assert turn.prefill.text + turn.prefill.healed == text
            assert head + turn.prefill.healed == "<think>\nHm, wh\n</think>\n\n" + text
            assert turn.prefill.healed
            assert turn.tokens == plain.tokens + turn.prefill.tokens
            assert not special & {*turn.prefill.tokens} - {*turn.markers.values()}


@pytest.mark.parametrize("name", ["llama-spm", "phi-3", "qwen2", "gemma-4"])
def test_boundaries_in_real_vocabularies(name: str) -> None:
    vocabulary = vocabulary_of(require_models_directory() / f"ggml-vocab-{name}.gguf")
    compiler = Compiler(vocabulary, ChatTemplate(HERMES))
    talk = [{"role": role, "content": f"{role} 日本"} for role in ("system", "user", "assistant")]
    messages = [*talk, {"role": "user", "content": "And?"}]
    turn = compiler.compile(Job(messages, [PING], breakpoints=(2, 3)))
    places = turn.prompt.breakpoints.places
    assert len(places) == 3
    spelled = [vocabulary.text(turn.tokens[:at]).decode() for at in places[1:]]
    for text, role in zip(spelled, ("user", "assistant"), strict=True):
        assert text.rstrip().endswith(f"{role} 日本<|im_end|>")
        assert vocabulary.text(turn.tokens).decode().startswith(text)
