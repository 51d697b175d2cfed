"""LoRA adapters: they change what a model computes, at the scale that is asked, and share no cached
prompt with what is computed without them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.agent.loading import load
from constrained.engine import llamacpp
from constrained.engine.options import MAX_SCALE, EngineOptions, Lora, LoraSource, split_scale
from constrained.engine.probe import NO_PROBE
from constrained.engine.protocol import Chunk
from constrained.errors import ModelError, RequestError
from constrained.model_files import embedded
from tests.command_line import Run
from tests.lora_file import write_adapter
from tests.templates import tool

DEMO = Path(embedded.PATH)
TOKENS = [5 + number * 7 % 600 for number in range(100)]
SETTINGS: dict[str, Any] = {"context_length": 512, "threads": 1}
WEATHER = tool("get_weather", {"city": {"type": "string", "maxLength": 20}})


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tmp_path_factory.mktemp("lora") / "one.gguf", DEMO)


def compute(*lora: LoraSource) -> tuple[np.ndarray, str, int]:
    """Logits after some tokens, the fingerprint of the engine, and its memory."""
    with llamacpp.load(DEMO, lora=lora, **SETTINGS) as engine:
        (logits,) = engine.decode([Chunk(0, TOKENS, 0)])
        return logits.copy(), engine.fingerprint, engine.memory_bytes


def test_an_adapter_counts_as_much_as_its_scale_says(adapter: Path, tmp_path: Path) -> None:
    plain, unchanged, memory = compute()
    zero, none, _ = compute((adapter, 0))
    half, less, _ = compute((adapter, 0.5))
    whole, more, grown = compute(adapter)
    other = write_adapter(tmp_path / "other.gguf", DEMO, seed=1)
    both, two, _ = compute(adapter, (other, -0.5))
    assert np.array_equal(plain, zero)
    assert np.array_equal(whole, compute((str(adapter), 1))[0])
    computed = [plain, half, whole, both, compute(other)[0]]
    for number, logits in enumerate(computed):
        assert not any(np.allclose(logits, later, atol=0.1) for later in computed[number + 1 :])
    assert len({unchanged, none, less, more, two}) == 5
    assert grown == memory + adapter.stat().st_size


def test_adapters_share_no_cached_prompt(adapter: Path, tmp_path: Path) -> None:
    def ask(**options: Any) -> tuple[int, str]:
        with load(**SETTINGS | options) as model:
            reply = model.call("one two three four five " * 20, max_tokens=12)
            return reply.usage.cached_tokens, reply.text

    ways: Sequence[dict[str, Any]] = ({}, {"lora": [adapter]}, {"lora": [(adapter, 0.25)]})
    fresh = [ask(**way) for way in ways]
    assert len({text for _, text in fresh}) == 3
    assert [ask(**way, cache_dir=tmp_path) for way in ways] == fresh
    for way, (_, text) in zip(ways, fresh, strict=True):
        cached, again = ask(**way, cache_dir=tmp_path)
        assert (cached > 64, again) == (True, text)


def test_calls_fit_their_schema_under_an_adapter(adapter: Path) -> None:
    question = "What's the weather in Paris?"
    calls: list[Any] = []
    for lora in ([], [(adapter, 0)], [(adapter, 8)]):
        with load(lora=lora, **SETTINGS) as model:
            (call,) = model.call(question, tools=[WEATHER], tool_choice="required").calls
            calls.append((call.name, call.arguments))
    assert calls[0] == calls[1] != calls[2]
    assert calls[2][0] == calls[0][0]


def test_the_adapter_of_a_borrowed_model_counts(adapter: Path) -> None:
    names: list[str] = []
    for scale in (None, 1.0, 0.5):
        given: dict[str, Any] = {}
        if scale is not None:
            given = {"lora_path": str(adapter), "lora_scale": scale}
        llama = llama_cpp.Llama(str(DEMO), n_ctx=512, verbose=False, **given)
        try:
            names.append(llamacpp.borrow(llama).fingerprint)
        finally:
            llama.close()
    assert len(set(names)) == 3


def write_text(path: Path) -> Path:
    path.write_text("no model")
    return path


def write_part(path: Path) -> Path:
    data = write_adapter(path, DEMO).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, r"cannot be read: No such file.*path of the adapter"),
        (lambda path: path.parent, r"cannot be read: Is a directory"),
        (write_text, r"is not a GGUF file\. Convert the adapter to GGUF"),
        (write_part, r"data is not within the file.*Download the file again"),
        (lambda path: DEMO, r"expect general\.type to be 'adapter'.*Give a LoRA adapter"),
        (lambda path: write_adapter(path, DEMO, kind="x"), r"adapter\.type .*Only LoRA adapters"),
        (
            lambda path: write_adapter(path, DEMO, architecture="llama"),
            r"arch mismatch\. Use the adapter with the model that it was trained for",
        ),
        (
            lambda path: write_adapter(path, DEMO, widen=32),
            r"incorrect shape.*Use the adapter with the model that it was trained for",
        ),
        (
            lambda path: write_adapter(path, DEMO, layers=1),
            r"does not exist in base model.*with the model that it was trained for",
        ),
        (lambda path: write_adapter(path, DEMO, tokens=[1]), r"certain tokens activate \(aLoRA\)"),
    ],
)
def test_files_that_are_no_adapters_for_the_model(
    make: Callable[[Path], Path],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NO_PROBE, "1")
    with pytest.raises(ModelError, match=message):
        llamacpp.load(DEMO, lora=[make(tmp_path / "adapter.gguf")], **SETTINGS)


def test_a_child_process_tries_an_adapter_with_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NO_PROBE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "adapter.gguf"
    write_adapter(path, DEMO, layers=1)
    with pytest.raises(ModelError, match="with the model that it was trained for"):
        llamacpp.load(DEMO, lora=[path], **SETTINGS)
    write_adapter(path, DEMO, unlike=True)
    with pytest.raises(ModelError, match=r"with .*adapter\.gguf cannot be loaded: llama\.cpp ends"):
        llamacpp.load(DEMO, lora=[path], **SETTINGS)


def test_an_adapter_is_no_model(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NO_PROBE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ModelError, match=r"is an adapter for a model, not a model.*--lora FILE"):
        load(adapter)


@given(scale=st.floats(-MAX_SCALE, MAX_SCALE))
def test_a_scale_is_read_as_it_is_written(scale: float) -> None:
    assert split_scale(f"C:/a b.gguf:{scale}") == Lora(Path("C:/a b.gguf"), scale)


def test_a_name_with_a_colon_takes_precedence(tmp_path: Path) -> None:
    assert split_scale("one.gguf") == Lora(Path("one.gguf"), 1.0)
    path = tmp_path / "one:2"
    path.write_bytes(b"")
    assert split_scale(str(path)) == Lora(path, 1.0)
    assert split_scale(f"{path}:3") == Lora(path, 3.0)


@pytest.mark.parametrize("scale", ["", "x", "nan", "-inf", "1001", "1.gguf"])
def test_bad_scales_on_the_command_line(scale: str, run: Run) -> None:
    code, _, err = run("call", "Hi", "--lora", f"a.gguf:{scale}")
    assert code == 2
    assert f"and {scale!r} is not a scale" in err
    assert "Write FILE or FILE:SCALE" in err


@pytest.mark.parametrize(
    "lora",
    ["a.gguf", [5], [("a", "1")], [("a", True)], [("a", float("nan"))], [("a", 1, 2)], [("a",)]],
)
def test_bad_adapters(lora: Any) -> None:
    with pytest.raises(RequestError, match=r"must be a (list|file, or a pair of a)") as caught:
        EngineOptions(lora=lora)
    assert caught.value.where == "/lora"
