"""Traces: what decided each token, and that nothing changes where one is made."""

import json
import re
from typing import Any

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.decode.token_trace import TokenSource
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.model.reply import Reply
from constrained.model.trace.turn_trace import TurnTrace, write_page
from constrained.prompt.template.chat_template import ChatTemplate
from tests.replies import uncounted
from tests.scripted_model import BYTES, scripted, wishing
from tests.templates import HERMES, hermes_call, tool

WEATHER = tool("weather", {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}})
CALL = hermes_call("weather", '{"city": "Rome", "unit": "c"}')
GREEDY = Sampling(temperature=0)


def trace_of(reply: Reply) -> TurnTrace:
    assert reply.trace is not None
    return reply.trace


def make_random(seed: int) -> Model:
    engine = ScriptedEngine(BYTES, random_logits(BYTES, seed), context_length=4_000)
    return Model(engine, ChatTemplate(HERMES))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_trace_changes_nothing(seed: int, choice: str):
    options: dict[str, Any] = {"tool_choice": choice, "max_tokens": 120}
    options["sampling"] = Sampling(seed=seed)
    with make_random(seed) as model:
        plain = model.call("hi", [WEATHER], **options)
        traced = model.call("hi", [WEATHER], trace=True, **options)
    assert plain.trace is None
    assert uncounted(plain) == uncounted(traced)
    assert plain.usage == uncounted_cache(traced, plain)
    trace = trace_of(traced)
    kept = [t for t in trace.tokens if not t.is_discarded and not t.is_end]
    assert b"".join(token.text for token in kept).decode("utf-8", "replace") == traced.text
    assert len(trace.tokens) - sum(t.is_end for t in trace.tokens) == len(kept) + (
        traced.usage.discarded_tokens
    )


def uncounted_cache(reply: Reply, like: Reply) -> Any:
    """The counts of a reply, but for those that the cache decides."""
    usage = vars(reply.usage) | {
        name: getattr(like.usage, name)
        for name in ("cached_tokens", "forward_passes", "drafted_tokens", "accepted_tokens")
    }
    return type(reply.usage)(**usage)


def test_what_decided():
    with scripted(CALL) as model:
        reply = model.call("hi", [WEATHER], tool_choice="required", sampling=GREEDY, trace=True)
    trace = trace_of(reply)
    sources = {token.source for token in trace.tokens}
    assert {TokenSource.DRAWN, TokenSource.FORCED} <= sources
    for token in trace.tokens:
        if token.source is TokenSource.FORCED:
            assert token.probability is None
            assert token.alternatives == ()
        if token.source is TokenSource.DRAWN:
            assert token.probability is not None
            assert token.allowed is not None
            assert token.allowed > 1


def test_each_token_has_its_place():
    with scripted(CALL) as model:
        reply = model.call("hi", [WEATHER], tool_choice="required", sampling=GREEDY, trace=True)
    shown: Any = trace_of(reply).to_json()
    places: dict[tuple[str, str], str] = {}
    for token in shown["tokens"]:
        key = token["part"], token.get("pointer", "")
        places[key] = places.get(key, "") + token["text"]
    assert places["tool name", ""] == "weather"
    assert "Rome" in places["arguments", "/city"]
    assert ("end of turn", "") in places


def test_with_log_probabilities_the_model_is_asked_about_each_token():
    with scripted(CALL) as model:
        options: dict[str, Any] = {"tool_choice": "required", "sampling": GREEDY}
        reply = model.call("hi", [WEATHER], trace=True, logprobs=0, **options)
    tokens = trace_of(reply).tokens
    assert all(token.probability is not None for token in tokens)
    assert TokenSource.ONLY in {token.source for token in tokens}
    for token, event in zip(tokens, reply.logprobs, strict=False):
        assert token.probability == pytest.approx(np.exp(event.logprob), abs=1e-4)


def test_where_the_model_wanted_something_else():
    with wishing("No.", CALL) as model:
        options: dict[str, Any] = {"tool_choice": "required", "sampling": GREEDY}
        reply = model.call("hi", [WEATHER], trace=True, logprobs=0, **options)
    wanted = [token.wanted for token in trace_of(reply).tokens if token.wanted is not None]
    assert wanted[0].text == b"N"
    assert not wanted[0].is_allowed
    assert wanted[0].probability > 0.5


def test_probabilities_add_up():
    with make_random(3) as model:
        reply = model.call("hi", [WEATHER], max_tokens=40, trace=True)
    for token in trace_of(reply).tokens:
        if token.probability is None or token.masked_probability is None:
            continue
        assert 0 <= token.probability <= token.masked_probability * (1 + 1e-4)
        shares = [one.probability for one in token.alternatives]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1 + 1e-4


def test_a_repeated_call_is_discarded():
    with scripted(f"{CALL}\n{CALL}") as model:
        reply = model.call("hi", [WEATHER], sampling=GREEDY, trace=True)
    discarded = [token for token in trace_of(reply).tokens if token.is_discarded]
    assert len(discarded) == reply.usage.discarded_tokens > 0


def test_the_reserve_inserts():
    with scripted("word " * 200) as model:
        options: dict[str, Any] = {"response_format": {"type": "json_object"}}
        reply = model.call("hi", max_tokens=30, sampling=GREEDY, trace=True, **options)
    assert TokenSource.INSERTED in {token.source for token in trace_of(reply).tokens}
    assert trace_of(reply).finish == "length"


def test_the_page():
    evil = "</script><!-- \u2028 <script>alert(1)</script>"
    with scripted(
        hermes_call("weather", json.dumps({"city": evil, "unit": "c"}, ensure_ascii=False))
    ) as model:
        reply = model.call(evil, [WEATHER], sampling=GREEDY, trace=True)
    trace = trace_of(reply)
    page = write_page(trace.to_json())
    assert page.count("</script>") == 1
    assert "<!--" not in page
    data = re.search(r"const trace = (.*);\n", page)
    assert data is not None
    assert json.loads(data[1]) == trace.to_json()
    assert "http:" not in page.replace(data[0], "")
    assert "https:" not in page.replace(data[0], "")
    assert "<iframe" in trace._repr_html_()
    assert evil not in trace._repr_html_()
