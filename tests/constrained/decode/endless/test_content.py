"""Content that repeats itself without end ends the turn; what repeats itself on purpose stays."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.decode.parts.ends import RepeatedContent
from constrained.engine.sampling import Sampling
from constrained.mask.logprobs import TokenDrawn
from constrained.prompt.job import MAX_REPEATED
from grammars.turn import ContentDelta
from tests.remote_model import sampled_elsewhere
from tests.scripted_model import scripted
from tests.templates import PING, hermes_call

GREEDY = Sampling(temperature=0)
LOOPS = ["391 and is 391 and the is ", "```\n", "\n", " ", "🙂"]
PAGES = sorted(Path(__file__).parents[4].glob("docs/*.md"))
KEPT = {
    "matrix": "[" + ",\n".join(["[" + ", ".join("0" * 10) + "]"] * 10) + "]",
    "rows": "| - | - |\n" * 12,
    "line three times": "A line that is written three times, word by word, as it stands.\n" * 3,
    "list": "".join(f"{number}. Item\n" for number in range(200)),
    "poem": "Merrily, merrily, merrily, merrily,\nLife is but a dream.\n" * 5,
}


class Content:
    """A transcript in its content."""

    is_reasoning = is_in_call = is_healing = False

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.data = bytearray()

    def find_place(self) -> str:
        return "/content"


def is_ended(text: bytes) -> bool:
    """Whether content is ended whose tokens are bytes, which repeat themselves most."""
    turn: Any = SimpleNamespace(transcript=Content())
    watched = RepeatedContent(turn, MAX_REPEATED)
    for token in text:
        turn.transcript.tokens.append(token)
        turn.transcript.data.append(token)
        watched.after_take(token, turn, is_forced=False, is_computed=False)
        if watched.ended:
            return True
    return False


@pytest.mark.parametrize("tools", [[], [PING]])
@pytest.mark.parametrize("cycle", LOOPS)
def test_the_turn_ends_in_its_loop(cycle: str, tools: list[Any]) -> None:
    text = "Well: " + cycle * (4000 // len(cycle))
    with scripted(text) as model:
        reply = model.call("Hi", tools, max_tokens=3000, sampling=GREEDY)
        stream = model.stream("Hi", tools, max_tokens=3000, sampling=GREEDY, logprobs=1)
        sent = list(stream)
        whole = model.call("Hi", tools, max_tokens=500, sampling=GREEDY, max_repetition=None)
    assert reply.finish_reason == "length"
    assert text.startswith(reply.content)
    assert reply.usage.completion_tokens < 520
    (ended,) = reply.ended_values
    assert (ended.where, ended.tokens) == ("/content", reply.usage.completion_tokens)
    assert stream.result.content == reply.content
    assert "".join(one.text for one in sent if isinstance(one, ContentDelta)) == reply.content
    assert len([one for one in sent if isinstance(one, TokenDrawn)]) == ended.tokens
    assert whole.ended_values == ()
    assert whole.usage.completion_tokens > 490  # 500, or less before a character that is cut


def test_calls_before_the_loop_stay() -> None:
    with scripted("I ping." + hermes_call("ping") + "\n" * 3000) as model:
        reply = model.call("Hi", [PING], max_tokens=3000, sampling=GREEDY)
    assert [call.name for call in reply.calls] == ["ping"]
    assert reply.usage.completion_tokens < 400


def test_the_bound_follows_the_option() -> None:
    with scripted("ha " * 999) as model:
        for bound in (100, 400, 1600):
            reply = model.call("Hi", max_tokens=2000, sampling=GREEDY, max_repetition=bound)
            assert reply.ended_values[0].tokens == max(48, bound // 4)


def test_raw_text_goes_on() -> None:
    with scripted("ha " * 999, turn=b"ha ha") as model:
        turn = model.compile_text("ha ha")
        (raw,) = model.complete([turn], max_tokens=600, sampling=GREEDY)
        assert (raw.usage.completion_tokens, raw.ended_values) == (600, ())


def test_a_remote_turn_ends_there_too() -> None:
    def make() -> Any:
        return scripted("Well: " + "391 and is " * 300)

    given: Any = {"sampling": GREEDY, "max_tokens": 2000}
    with make() as model:
        here = model.call("Hi", **given)
    with sampled_elsewhere(make) as load, load() as model:
        there = model.call("Hi", **given)
    assert (there.content, there.ended_values) == (here.content, here.ended_values)
    assert (there.finish_reason, here.finish_reason) == ("length", "length")
    assert here.ended_values


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_of_the_documentation_is_ended(page: Path) -> None:
    assert not is_ended(page.read_bytes())


@pytest.mark.parametrize("name", KEPT)
def test_text_that_repeats_itself_on_purpose_stays(name: str) -> None:
    assert not is_ended(KEPT[name].encode())


@given(st.recursive(st.integers(0, 1) | st.none(), lambda e: st.lists(e, max_size=4)), st.text())
def test_short_texts_are_never_ended(value: Any, text: str) -> None:
    written = json.dumps([value, text], indent=1)
    assert not is_ended(written.encode()[: MAX_REPEATED // 4 - 1])
