"""What engines answer: read strictly, whatever comes."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.sampling import Sampling
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import RemoteError, RequestError
from constrained.remote.address import EngineKind, read_address
from constrained.remote.engines import llama_server, sglang, vllm
from constrained.remote.engines.http_client import MAX_LINE, HttpClient
from constrained.remote.engines.http_sampler import list_unwritten
from constrained.remote.engines.llama_server import LostTokens
from constrained.remote.event_loop import EventLoopThread
from constrained.remote.remote_runner import FAILURES, PAUSE, CircuitBreaker
from constrained.remote.sampler import EngineVersion, SampledToken, SampleRequest, SampleStart
from tests.constrained.remote.stand_ins import serving

BYTES = byte_vocabulary(["<a>"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
LLAMA_SERVER = {
    "content": "a",
    "tokens": [97],
    "tokens_predicted": 1,
    "completion_probabilities": [
        {"id": 97, "logprob": -1.0, "top_logprobs": [{"id": 97, "logprob": -1.0}]}
    ],
    "stop": True,
    "stop_type": "eos",
    "cache_n": 1,
}
VLLM = {
    "choices": [
        {
            "text": "a",
            "token_ids": [97],
            "logprobs": {"token_logprobs": [-1.0], "top_logprobs": [{"token_id:97": -1.0}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}},
}
SGLANG = {
    "output_ids": [97],
    "meta_info": {
        "completion_tokens": 1,
        "output_token_logprobs": [[-1.0, 97, None]],
        "output_top_logprobs": [[[-1.0, 97, None]]],
        "finish_reason": {"type": "stop"},
        "cached_tokens": 1,
    },
}


def make_reader(kind: str) -> tuple[Any, dict[str, Any]]:
    """What reads the events of an engine, and a whole event."""
    match kind:
        case "llama-server":
            return llama_server._TokenReader("e", 9, BYTES, LostTokens(BYTES)), LLAMA_SERVER
        case "vllm":
            return vllm._ChunkReader("e", [1, 2]), VLLM
        case _:
            return sglang._OutputReader(HttpClient(read_address("sglang://e")), 9), SGLANG


def list_places(value: Any) -> list[tuple[Any, Any]]:
    """The containers in a value, each with a key of it."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    places = [(value, key) for key, _ in inner]
    for _, part in inner:
        places += list_places(part)
    return places


@given(st.sampled_from(["llama-server", "vllm", "sglang"]), st.data())
def test_what_is_no_event_is_refused_or_read(kind: str, data: st.DataObject):
    """No other error ever comes of what an engine sends."""
    reader, whole = make_reader(kind)
    event = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(list_places(event)))
        if data.draw(st.booleans()):
            del container[key]
        else:
            container[key] = data.draw(JSON)
        if not list_places(event):
            break
    with suppress(RemoteError):
        list(reader.read(event))


@pytest.mark.parametrize("kind", ["llama-server", "vllm", "sglang"])
def test_events_are_read(kind: str):
    reader, event = make_reader(kind)
    assert next(iter(reader.read(event))) == SampledToken(97, -1.0, {97: -1.0})


@given(st.text(alphabet="é日😀\U0010fffd", min_size=1, max_size=6))
def test_lost_tokens_spell_the_same_bytes(text: str):
    data = text.encode()[:-1]
    count = sum(1 for _ in data)
    found = LostTokens(BYTES).find(data, count)
    if found is not None:  # not where a character ends inside of it: its token was told
        assert BYTES.text(found) == data
    assert LostTokens(BYTES).find(data, count + 1) is None


def test_a_llama_server_tells_at_the_start_what_it_has_cached():
    reader = llama_server._TokenReader("e", 9, BYTES, LostTokens(BYTES))
    told = {"content": "", "tokens": [0], "tokens_predicted": 0}
    start = {**told, "prompt_progress": {"total": 9, "cache": 7, "processed": 7}}
    assert list(reader.read(start)) == [SampleStart(7)]
    first = {"content": "a", "tokens": [97], "tokens_predicted": 1}
    assert list(reader.read(first)) == [SampledToken(97)]
    with pytest.raises(RemoteError, match="after the first token"):
        list(reader.read(start))


@pytest.mark.parametrize("kind", ["llama-server", "vllm", "sglang"])
def test_another_prompt_is_refused(kind: str):
    """An engine may shorten what is too long for it."""
    reader, whole = make_reader(kind)
    event = copy.deepcopy(whole)
    match kind:
        case "llama-server":
            told = {"total": 8, "cache": 0, "processed": 8}
            event = {"content": "", "tokens": [0], "tokens_predicted": 0, "prompt_progress": told}
        case "vllm":
            event["choices"][0]["prompt_token_ids"] = [1, 3]
        case _:
            event["meta_info"]["prompt_tokens"] = 8
    with pytest.raises(RemoteError, match="it read another prompt"):
        list(reader.read(event))


@pytest.mark.parametrize(
    ("status", "count", "is_busy"), [(503, 0, True), (503, 1, False), (400, 0, False)]
)
def test_a_reply_that_is_given_up_says_why(status: int, count: int, is_busy: bool):
    reader, _ = make_reader("sglang")
    if count:
        list(reader.read({"output_ids": [97], "meta_info": {"completion_tokens": 1}}))
    reason = {"type": "abort", "message": "the queue is full", "status_code": status}
    with pytest.raises(RemoteError, match="given up: the queue is full") as caught:
        list(reader.read({"output_ids": [], "meta_info": {"finish_reason": reason}}))
    assert (caught.value.retry_after is not None) == is_busy
    assert caught.value.is_outage == (status == 503)


def make_sglang(**given: bool) -> sglang.SglangSampler:
    told: dict[str, Any] = {"has_salts": True, "has_seeds": True, **given}
    facts = sglang.SglangFacts(model="m", context_length=99, room=99, **told)
    return sglang.SglangSampler(HttpClient(read_address("sglang://e")), BYTES, facts)


def test_former_versions_of_sglang_have_no_salts():
    read = sglang._read_version
    assert read("0.5.15.post1") < sglang.SALTED <= read("0.5.18") < read("0.6.0rc1")
    assert read(None) < sglang.SALTED
    salted = SampleRequest("", [1], None, max_tokens=1, sampling=Sampling(), cache_salt="a")
    make_sglang().check(salted)
    with pytest.raises(RequestError, match="shares its prompt cache"):
        make_sglang(has_salts=False).check(salted)


def test_seeds_go_to_an_sglang_that_takes_them():
    sampler = make_sglang()
    request = SampleRequest("", [1], None, max_tokens=1, sampling=Sampling(seed=7))
    assert sampler._write(request)["sampling_params"]["sampling_seed"] == 7
    # Without one, all of its replies would have the same.
    free = replace(request, sampling=Sampling())
    seeds = {sampler._write(free)["sampling_params"]["sampling_seed"] for _ in range(3)}
    assert len(seeds) > 1
    assert "sampling_seed" not in make_sglang(has_seeds=False)._write(free)["sampling_params"]


def test_what_drew_a_reply_is_read():
    reader, event = make_reader("vllm")
    event = copy.deepcopy(event) | {"system_fingerprint": "vllm-1"}
    spans = [{"version": "a", "start": 0, "end": 1}, {"version": "b", "start": 1, "end": 2}]
    event["choices"][0]["weight_versions"] = spans
    list(reader.read(event))
    assert reader.end.version == EngineVersion("vllm-1", "a, b")
    reader, whole = make_reader("sglang")
    event = copy.deepcopy(whole)
    event["meta_info"]["weight_version"] = "a"
    *_, end = reader.read(event)
    assert end.version == EngineVersion(weights="a")


def test_named_tokens_that_a_grammar_does_not_write_are_banned():
    vocabulary = byte_vocabulary(["<a>", "<b>"])
    a, b = vocabulary.marker("<a>"), vocabulary.marker("<b>")
    find = list_unwritten
    assert find(vocabulary, 'start: "x"') == [a, b]
    assert find(vocabulary, f'start: <[{a}]> "x"') == [b]


def test_text_that_is_no_utf8_comes_with_marks():
    """The engine tells neither the tokens nor the bytes."""
    reader = llama_server._TokenReader("e", 9, BYTES, LostTokens(BYTES))
    event = {"content": "\ufffda", "tokens": [97], "tokens_predicted": 3}
    read = list(reader.read(event))
    tokens = [sampled.token for sampled in read if isinstance(sampled, SampledToken)]
    assert BYTES.text(tokens).decode() == "\ufffda"


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"content": "a", "tokens": [98], "tokens_predicted": 1}, "does not match the tokens"),
        ({"content": "a", "tokens": [97], "tokens_predicted": 0}, "lost or came twice"),
        ({"content": "ab", "tokens": [98], "tokens_predicted": 2}, "were not sent"),
        ({"content": "a", "tokens": [9999], "tokens_predicted": 1}, "only tokens from 0"),
        ({"content": "a", "tokens": ["a"], "tokens_predicted": 1}, "not a list of token ids"),
        (
            {"content": "", "tokens": [], "tokens_predicted": 0, "stop": True},
            "an unexpected reason",
        ),
    ],
)
def test_events_of_llama_server_that_contradict_themselves(event: dict[str, Any], problem: str):
    reader = llama_server._TokenReader("e", 9, BYTES, LostTokens(BYTES))
    with pytest.raises(RemoteError, match=problem):
        list(reader.read(event))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("llama-server://h", "http://h:8080"),
        ("vllm://h:9/prefix/", "http://h:9/prefix"),
        ("sglang+https://h", "https://h"),
        ("vllm://[::1]:5", "http://[::1]:5"),
    ],
)
def test_addresses_are_read(text: str, url: str):
    assert read_address(text).url == url


@pytest.mark.parametrize(
    "text", ["http://h", "vllm://", "vllm://h:x", "vllm://u@h", "vllm://h?a=1", "://h"]
)
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(RequestError, match="is not an address of an engine"):
        read_address(text)


def test_a_breaker_tries_again():
    now = [0.0]
    breaker = CircuitBreaker("e", lambda: now[0])
    for _ in range(FAILURES):
        breaker.check()
        breaker.note_failure(RemoteError("gone", is_outage=True))
    with pytest.raises(RemoteError, match="in a row"):
        breaker.check()
    now[0] += PAUSE
    breaker.check()  # one may try
    with pytest.raises(RemoteError):
        breaker.check()  # the others wait for what comes of it
    breaker.note_success()
    breaker.check()


@contextmanager
def speaking(answer: Response) -> Iterator[tuple[HttpClient, EventLoopThread]]:
    """A client of a server that answers everything so."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def respond(path: str, request: Request) -> Response:
        return answer

    loop = EventLoopThread("test")
    with serving(app) as host:
        client = HttpClient(read_address(f"{EngineKind.VLLM}://{host}"))
        try:
            yield client, loop
        finally:
            loop.run(client.close())
            loop.close()


async def read_all(client: HttpClient) -> list[Any]:
    return [event async for event in client.stream("/x", {})]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response("no", 404), "status 404 for /x: no"),
        (Response(json.dumps({"error": {"message": "bad grammar"}}), 400), "400 .*: bad grammar"),
        (Response("{}", media_type="application/json"), "not with a stream"),
        (Response("data: {", media_type="text/event-stream"), "in the middle of an event"),
        (Response("data: [1]\n\n", media_type="text/event-stream"), "is not an object"),
        (Response("data: x\n\n", media_type="text/event-stream"), "is not JSON"),
        (Response('error: "x"\n\n', media_type="text/event-stream"), "it says"),
        (
            StreamingResponse(
                (b"x" * 65536 for _ in range(MAX_LINE // 65536 + 2)),
                media_type="text/event-stream",
            ),
            "a line of its stream has more than",
        ),
    ],
)
def test_what_is_no_stream_is_refused(answer: Response, problem: str):
    with speaking(answer) as (client, loop), pytest.raises(RemoteError, match=problem):
        loop.run(read_all(client))


@pytest.mark.parametrize(("code", "is_busy"), [(503, True), (400, False)])
def test_a_status_may_stand_in_the_stream(code: int, is_busy: bool):
    """Both engines have answered with status 200 by then."""
    fault = {"error": {"message": "not now", "code": code}}
    answer = Response(f"data: {json.dumps(fault)}\n\n", media_type="text/event-stream")
    with speaking(answer) as (client, loop), pytest.raises(RemoteError, match="not now") as caught:
        loop.run(read_all(client))
    assert (caught.value.retry_after == 0) == caught.value.is_outage == is_busy
