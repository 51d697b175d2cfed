"""The state of sequences in llama.cpp: saved, restored, gone back to; of an attention model and
of a hybrid."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained.agent.loading import load as load_model
from constrained.decode.kv.snapshots import Cache
from constrained.decode.request import DecodeInput, DecodeOptions, Generation, Request
from constrained.decode.schedule.batch_plan import BLOCK
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.engine import llama_params
from constrained.engine.llamacpp import LlamaEngine, load
from constrained.engine.protocol import Chunk, Sampling
from constrained.errors import ModelError
from constrained.prompt.cache_breakpoints import CacheBreakpoints
from constrained.prompt.job import Job
from examples.random_model import MARKERS, load_small, with_markers, write_hybrid, write_model
from grammars.parse.parser import Parser
from grammars.wire.formats import HERMES
from tests.templates import OPEN

GREEDY = Sampling(temperature=0)
CLOSE = 0.1  # logits deviate by 3
KINDS = ("attention", "hybrid")
TOKENS = [5 + number * 7 % 600 for number in range(200)]
MEMORY = Cache(1 << 20)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    tokens = with_markers(load_small(), MARKERS)
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return {
        "attention": write_model(folder / "attention.gguf", tokens, template),
        "other": write_model(folder / "other.gguf", tokens, template, seed=1),
        "hybrid": write_hybrid(folder / "hybrid.gguf", tokens, template),
    }


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[1, 3])
def engine(
    kind: str, paths: dict[str, Path], request: pytest.FixtureRequest
) -> Iterator[LlamaEngine]:
    with load(paths[kind], context_length=1024, sequences=request.param, threads=1) as engine:
        yield engine


def read(engine: LlamaEngine, sequence: int, tokens: list[int], start: int = 0) -> np.ndarray:
    (logits,) = engine.decode([Chunk(sequence, tokens[start:], start)])
    return logits.copy()


def test_a_state_that_is_restored_goes_on_as_it_was(engine: LlamaEngine) -> None:
    read(engine, 0, TOKENS[:150])
    state = engine.save(0)
    assert engine.state_size(0) == len(state)
    wanted = read(engine, 0, TOKENS, 150)
    last = engine.max_sequences - 1
    engine.release(0)
    read(engine, last, TOKENS[::-1])  # something else comes in between
    engine.release(last)
    engine.restore(last, 150, state)
    assert np.array_equal(read(engine, last, TOKENS, 150), wanted)


def test_what_goes_back_leaves_no_trace(engine: LlamaEngine) -> None:
    read(engine, 0, TOKENS[:100])
    checkpoint = engine.checkpoint(0)
    wanted = read(engine, 0, TOKENS, 100)
    for number in range(5):
        engine.go_back(0, 100, checkpoint)
        if number == 4:
            assert np.array_equal(read(engine, 0, TOKENS, 100), wanted)
            return
        read(engine, 0, [*TOKENS[:100], *TOKENS[number:30]], 100)


def test_a_hybrid_cannot_be_cut_and_says_so(paths: dict[str, Path]) -> None:
    with load(paths["hybrid"], context_length=512, threads=1) as engine:
        assert engine.header.metadata["general.architecture"] == "lfm2"
        assert engine.needs_checkpoints
        read(engine, 0, TOKENS)
        assert not engine.can_cut(0, 199)
        assert not engine.rollback(0, 199)
        assert engine.can_cut(0, 200)
    with load(paths["attention"], context_length=512, threads=1) as engine:
        assert not engine.needs_checkpoints


def test_the_past_of_a_hybrid_matters(paths: dict[str, Path]) -> None:
    """Else the tests of this file could not fail."""
    with load(paths["hybrid"], context_length=512, threads=1) as engine:
        read(engine, 0, TOKENS[:100])
        checkpoint = engine.checkpoint(0)
        wanted = read(engine, 0, TOKENS[:101], 100)
        engine.release(0)
        read(engine, 0, [*TOKENS[:97], 1, 2, 3])
        engine.go_back(0, 100, checkpoint)  # its attention has seen other tokens
        mixed = read(engine, 0, TOKENS[:101], 100)
        engine.release(0)
        other = read(engine, 0, [*TOKENS[:97], 1, 2, 3, TOKENS[100]])
        assert np.abs(mixed - wanted).max() > 0.01
        assert np.abs(mixed - other).max() > 0.1


def test_a_copy_of_a_hybrid_goes_back_by_itself(paths: dict[str, Path]) -> None:
    with load(paths["hybrid"], context_length=512, sequences=2, threads=1) as engine:
        read(engine, 0, TOKENS[:100])
        checkpoint = engine.checkpoint(0)
        read(engine, 0, TOKENS[:120], 100)
        engine.copy(0, 1, 120)
        engine.go_back(1, 100, checkpoint)
        wanted = read(engine, 0, TOKENS, 120)  # the source goes on
        found = read(engine, 1, TOKENS, 100)
        engine.release(0)
        engine.release(1)
        np.testing.assert_allclose(found, wanted, atol=CLOSE)
        assert np.array_equal(read(engine, 0, TOKENS, 0), read(engine, 1, TOKENS, 0))


def damaged(state: bytes) -> list[bytes]:
    return [b"", state[:-1], state[: len(state) // 2], state + b"\0", b"\xff" * len(state)]


def test_a_state_that_is_none_is_refused(engine: LlamaEngine) -> None:
    read(engine, 0, TOKENS[:100])
    state = engine.save(0)
    checkpoint = engine.checkpoint(0)
    with pytest.raises(ValueError, match="sequence 0 has 100 tokens already"):
        engine.restore(0, 100, state)
    with pytest.raises(ValueError, match="cannot go back to 101"):
        engine.go_back(0, 101, checkpoint)
    engine.release(0)
    for bad in damaged(state):
        with pytest.raises(ModelError):
            engine.restore(0, 100, bad)
    with pytest.raises(ModelError, match="a state of 99 tokens has 100"):
        engine.restore(0, 99, state)
    engine.restore(0, 100, state)
    read(engine, 0, TOKENS, 100)
    if engine.needs_checkpoints:
        with pytest.raises(ModelError, match=r"a state of 99 tokens has 100|cannot go back"):
            engine.go_back(0, 99, checkpoint)
        read(engine, 0, TOKENS)  # it was released


def test_the_fingerprint_tells_what_a_state_depends_on(
    paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(path: Path, **options: Any) -> str:
        usual = {"context_length": 512, "threads": 1, "gpu_layers": 0}
        with load(path, **usual | options) as engine:
            return engine.fingerprint

    path = paths["attention"]
    first = fingerprint(path)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(path.read_bytes())
    assert fingerprint(path) == fingerprint(copy) == first
    others = [
        fingerprint(paths["other"]),
        fingerprint(path, context_length=1024),
        fingerprint(path, flash_attention=True),
    ]
    with monkeypatch.context() as short:  # as where no memory is left for the scores of attention
        short.setattr(llama_params, "MAX_SCORES", 0)
        others.append(fingerprint(path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # one weight
    copy.write_bytes(content)
    others.append(fingerprint(copy))
    assert len({first, *others}) == 6


def request(prompt: Sequence[int], boundaries: tuple[int, ...] = ()) -> Request:
    breakpoints = CacheBreakpoints(places=boundaries)
    turn = DecodeInput(tuple(prompt), lambda: Parser(HERMES, ()), breakpoints=breakpoints)
    return Request(turn, DecodeOptions(max_tokens=8, sampling=GREEDY))


def finish(schedule: Schedule, *requests: Request) -> list[Generation]:
    seats = [Seat(given) for given in requests]
    for seat in seats:
        schedule.add(seat)
    while not schedule.is_idle:
        schedule.step()
    return [seat.result.result() for seat in seats]


def require_greedy(engine: LlamaEngine, prompt: list[int], reply: Sequence[int]) -> None:
    tokens = prompt
    for token in reply:
        logits = read(engine, 0, tokens, len(tokens) - 1 if tokens is not prompt else 0)
        assert logits[token] > logits.max() - CLOSE
        tokens = [*tokens, token]


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_conversation_that_is_interrupted_goes_on_as_if_it_was_not(
    kind: str, paths: dict[str, Path], deterministic: bool
) -> None:
    """Several turns; between them another conversation, answers written anew, turns taken back."""
    system, other = TOKENS[:150], TOKENS[:20:-1]
    with (
        load(paths[kind], context_length=1024, threads=1) as engine,
        load(paths[kind], context_length=1024, threads=1) as fresh,
    ):
        schedule = Schedule(engine, deterministic=deterministic, cache=MEMORY)
        prompt = [*system, 7]
        cached = list[int]()
        for turn in range(6):
            (made,) = finish(schedule, request(prompt, (len(system),)))
            fresh.release(0)
            if deterministic:
                alone = Schedule(fresh, deterministic=True)
                assert finish(alone, request(prompt))[0].tokens == made.tokens
            else:  # prompts that are read in other parts are rounded differently
                require_greedy(fresh, prompt, made.tokens)
            cached.append(made.usage.cached_tokens)
            if turn % 2 == 0:
                finish(schedule, request([*other, turn], (len(other),)))
            if turn == 3:
                prompt = [*system, 9, 9, 9]  # a new conversation
            elif turn != 1:  # else the same turn once more
                prompt = [*prompt, *made.tokens, *TOKENS[turn : turn + 80]]
        least = 150 // BLOCK * BLOCK if deterministic else 150
        assert all(length >= least for length in cached[1:])
        if not deterministic:
            assert cached[2] == 151 + len(made.tokens) + 80 - 1  # the same turn once more
        assert schedule.metrics.failures == 0


def test_two_system_messages_take_turns(kind: str, paths: dict[str, Path]) -> None:
    systems = [TOKENS[:150], TOKENS[:20:-1]]
    with load(paths[kind], context_length=512, threads=1) as engine:
        schedule = Schedule(engine, cache=MEMORY)
        made = [
            finish(schedule, request([*systems[n % 2], n], (len(systems[n % 2]),)))[0]
            for n in range(6)
        ]
        cached = [generation.usage.cached_tokens for generation in made]
        assert cached == [0, 0, 150, 179, 150, 179]
        metrics = schedule.metrics
        assert metrics.hits == 4
        assert metrics.memory.count >= 2
        assert metrics.memory.bytes > 100 * metrics.memory.tokens


def test_a_prompt_that_invites_otherwise_goes_on_from_the_messages(
    kind: str, tmp_path: Path
) -> None:
    """Reasoning is open where the model speaks; another answer in the history has none."""
    tokens = with_markers(load_small(), MARKERS)
    write = write_hybrid if kind == "hybrid" else write_model
    path = write(tmp_path / "model.gguf", tokens, OPEN)
    messages = [{"role": "user", "content": "one two three four five " * 20}]
    with load_model(path, context_length=1024, threads=1) as model:
        turn = model.compile(Job(messages))
        closed = turn.prompt.breakpoints.closed
        assert turn.vocabulary.text(turn.tokens[closed:]).startswith(b"<|im_start|>")
        model.call(messages, max_tokens=4)
        messages += [{"role": "assistant", "content": "No."}, {"role": "user", "content": "Why?"}]
        cached = model.call(messages, max_tokens=4).usage.cached_tokens
    assert cached == closed if kind == "hybrid" else cached >= closed


def test_files_are_of_use_after_a_restart(
    kind: str, paths: dict[str, Path], tmp_path: Path
) -> None:
    def ask(name: str, **options: Any) -> tuple[int, str, Any]:
        settings: dict[str, Any] = {"context_length": 512, "threads": 1, "cache_dir": tmp_path}
        with load_model(paths[name], **settings | options) as model:
            reply = model.call("one two three four five " * 20, sampling=GREEDY, max_tokens=8)
            return reply.usage.cached_tokens, reply.content, model.metrics()

    first, text, metrics = ask(kind)
    assert (first, metrics.disk.count, metrics.misses) == (0, 0, 1)
    again, same, metrics = ask(kind)
    assert (again > 64, same, metrics.hits) == (True, text, 1)
    assert (metrics.disk.count, metrics.sequences, metrics.kv_cache.count) == (1, 1, 1)
    assert metrics.kv_cache.tokens >= again
    assert ask(kind, cache_ram=0)[0] == again
    assert ask("other")[0] == 0
    assert ask(kind, deterministic=True)[2].hits == 0
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    cached, same, metrics = ask(kind)
    assert (cached, same, metrics.failures) == (0, text, 1)
    assert ask(kind)[0] == again  # it was written again


def test_bad_numbers(paths: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="cache_ram is -2, must be -1 or more"):
        load_model(paths["attention"], cache_ram=-2)
