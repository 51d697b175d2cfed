"""Models that Ollama, LM Studio and llama.cpp have downloaded are found where they are."""

import json
from pathlib import Path

import pytest

from constrained.model_files.local_models import LocalModel, list_local, measure_files


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def found(models: list[LocalModel]) -> list[tuple[str, str, int]]:
    return [(model.program, model.name, model.bytes) for model in models]


def put_manifest(folder: Path, name: str, **layers: str) -> None:
    written = [{"mediaType": kind.replace("_", "."), "digest": d} for kind, d in layers.items()]
    for layer in written:
        layer["mediaType"] = f"application/vnd.ollama.image.{layer['mediaType']}"
    put(folder / "manifests" / name, json.dumps({"layers": written}).encode())


def test_a_machine_without_any(home: Path):
    assert list_local() == []


def test_ollama(home: Path, monkeypatch: pytest.MonkeyPatch):
    folder = home / ".ollama/models"
    blob = put(folder / "blobs/sha256-aa", b"GGUF" * 3)
    library = "registry.ollama.ai/library"
    put_manifest(folder, f"{library}/qwen3/8b", template="sha256:bb", model="sha256:aa")
    put_manifest(folder, "hf.co/a/b/Q4_0", model="sha256:aa")
    put_manifest(folder, f"{library}/half/latest", model="sha256:cc")  # its blob is not there yet
    put(folder / f"manifests/{library}/odd/latest", b"[1]")
    put(folder / f"manifests/{library}/bytes/latest", b"\xff")
    assert found(list_local()) == [("Ollama", "hf.co/a/b:Q4_0", 12), ("Ollama", "qwen3:8b", 12)]
    assert {model.path for model in list_local()} == {blob}
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "elsewhere"))
    assert list_local() == []


def test_folders_of_files(home: Path, monkeypatch: pytest.MonkeyPatch):
    studio = home / ".lmstudio/models/publisher/Model-GGUF"
    for number in (1, 2):
        put(studio / f"Model-Q8_0-0000{number}-of-00002.gguf", b"12345")
    put(studio / "mmproj-Model-F16.gguf", b"1")
    put(home / "cache/a_b_c-Q4_0.gguf", b"123")
    assert found(list_local()) == [("LM Studio", "publisher/Model-GGUF/Model-Q8_0", 10)]
    monkeypatch.setenv("LLAMA_CACHE", str(home / "cache"))
    assert found(list_local())[1:] == [("llama.cpp", "a_b_c-Q4_0", 3)]


def test_the_parts_of_a_model_whose_name_looks_like_a_pattern(tmp_path: Path):
    for number in (1, 2):
        (tmp_path / f"m[1]-0000{number}-of-00002.gguf").write_bytes(b"x" * number)
    assert measure_files(str(tmp_path / "m[1]-00001-of-00002.gguf")) == 3
