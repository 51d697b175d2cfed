"""Damaged GGUF files: an error of loading them, never the end of the process."""

import os
import struct
from pathlib import Path

import pytest

from constrained.engine import probe
from constrained.engine.gguf.contents import read_sound_contents
from constrained.engine.llamacpp import load
from constrained.errors import ModelError
from constrained.model_files import embedded
from tests.hostile.attacked import run_attack

DEMO = Path(embedded.PATH).read_bytes()
TYPES = {"I": 4, "f": 6}


def patch(key: str, form: str, value: float) -> bytes:
    """The demo model with another value of its metadata."""
    at = DEMO.index(key.encode()) + len(key)
    assert struct.unpack_from("<I", DEMO, at)[0] == TYPES[form]
    data = bytearray(DEMO)
    struct.pack_into(f"<{form}", data, at + 4, value)
    return bytes(data)


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of notes of files that were probed, which is empty."""
    monkeypatch.delenv(probe.NO_PROBE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "constrained" / "probed"


@pytest.mark.parametrize(
    ("key", "form", "value"),
    [
        ("qwen3.block_count", "I", 0),
        ("qwen3.block_count", "I", 2**32 - 1),
        ("qwen3.attention.layer_norm_rms_epsilon", "f", float("nan")),
        ("qwen3.attention.layer_norm_rms_epsilon", "f", float("-inf")),
        ("qwen3.attention.layer_norm_rms_epsilon", "f", -1.0),
        ("qwen3.embedding_length", "I", 0),
        ("qwen3.attention.key_length", "I", 0),
        ("qwen3.attention.head_count", "I", 2**31),
        ("qwen3.context_length", "I", 0),
    ],
)
def test_metadata_that_make_no_sense_are_errors(
    seen: Path, tmp_path: Path, key: str, form: str, value: float
):
    path = tmp_path / "model.gguf"
    path.write_bytes(patch(key, form, value))
    with pytest.raises(ModelError, match=r"cannot be loaded|no context"):
        load(path)


@pytest.mark.parametrize("length", [4, 8, 23, 24, 100, 1_000, 20_000])
def test_metadata_that_break_off(tmp_path: Path, length: int):
    path = tmp_path / "model.gguf"
    path.write_bytes(DEMO[:length])
    with pytest.raises(ModelError, match="cannot be loaded: it "):
        read_sound_contents(path)


@pytest.mark.parametrize("at", [4, 8, 16, 24, 60])
def test_counts_and_lengths_beyond_all_bounds(tmp_path: Path, at: int):
    data = bytearray(DEMO)
    data[at : at + 8] = b"\xff" * 8
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="cannot be loaded: it "):
        read_sound_contents(path)


def add_list(path: Path, count: int) -> None:
    """Writes the demo model with one more list, of empty texts."""
    (keys,) = struct.unpack_from("<Q", DEMO, 16)
    name = b"general.more"
    head = struct.pack("<QQ", keys + 1, len(name)) + name + struct.pack("<IIQ", 9, 8, count)
    with path.open("wb") as file:
        file.write(DEMO[:16] + head)
        file.seek(8 * count, os.SEEK_CUR)  # zeros
        file.write(DEMO[24:])


def test_no_list_is_longer_than_that_of_any_vocabulary(tmp_path: Path):
    path = tmp_path / "model.gguf"
    add_list(path, 30_000_000)
    with pytest.raises(ModelError, match="it has a list of 30000000 items"):
        read_sound_contents(path)


def test_metadata_are_shorter_than_any_weights(tmp_path: Path):
    path = tmp_path / "model.gguf"
    path.write_bytes(DEMO[:16])
    with path.open("ab") as file:
        file.write(struct.pack("<QQ", 1, 2**32))
        file.truncate(2**33)
    with pytest.raises(ModelError, match="its weights begin behind byte"):
        read_sound_contents(path)


LITTLE_MEMORY = """
import sys
from constrained.engine import llama_files
from constrained.errors import ModelError
llama_files.PROBE_MEMORY = 32 << 20
try:
    llama_files.try_file(sys.argv[1])
except ModelError as error:
    print(error.message)
"""


def test_a_file_is_tried_with_little_memory(tmp_path: Path):
    path = tmp_path / "model.gguf"
    add_list(path, 2_000_000)  # 64 MB of C++
    done = run_attack(LITTLE_MEMORY, [str(path)])
    assert "cannot be loaded" in done.stdout, done.stderr[-2000:]


def test_a_crash_of_llama_cpp_is_an_error(seen: Path, tmp_path: Path):
    path = tmp_path / "model.gguf"
    path.write_bytes(patch("qwen3.block_count", "I", 0))
    with pytest.raises(ModelError, match=r"llama\.cpp ends with SIGABRT") as caught:
        load(path)
    assert "damaged" in str(caught.value)
    assert not seen.exists()


def test_a_file_is_probed_once_until_it_changes(
    seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    probed: list[Path] = []
    try_in_child = probe._try_in_child

    def note(path: Path) -> None:
        probed.append(path)
        try_in_child(path)

    monkeypatch.setattr(probe, "_try_in_child", note)
    path = tmp_path / "model.gguf"
    path.write_bytes(DEMO)
    for _ in range(2):
        probe.probe_file(path)
    assert probed == [path]
    assert len([*seen.iterdir()]) == 1
    assert seen.stat().st_mode & 0o777 == 0o700
    os.utime(path, (1, 1))
    probe.probe_file(path)
    assert probed == [path, path]


def test_where_nothing_can_be_noted_the_file_is_probed_each_time(
    tmp_path: Path, seen: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setattr(probe, "_try_in_child", lambda path: None)
    path = tmp_path / "model.gguf"
    path.write_bytes(DEMO)
    probe.probe_file(path)


TRUNCATE = """
import os, sys
from constrained import load
with load(sys.argv[1], mmap=False, threads=1) as model:
    os.truncate(sys.argv[1], 100_000)
    print(model.call("hi", max_tokens=4).usage.completion_tokens)
"""


def test_a_file_that_is_cut_under_a_model_that_was_read_does_no_harm(tmp_path: Path):
    path = tmp_path / "model.gguf"
    path.write_bytes(DEMO)
    done = run_attack(TRUNCATE, [str(path)])
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 0
