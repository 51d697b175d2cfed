"""`constrained models`: what each model on this machine was made for, and its bits per weight."""

import json
from pathlib import Path

import gguf
import pytest

from constrained.cli.parser import main
from constrained.model_files import embedded
from tests.embedding_file import write_embedding_model


def test_models_for_embeddings_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "LLAMA_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    poolings = {"first": gguf.PoolingType.CLS, "mean": gguf.PoolingType.MEAN}
    poolings["ranks"] = gguf.PoolingType.RANK
    for name, pooling in poolings.items():
        write_embedding_model(tmp_path / f"{name}.gguf", pooling)
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" * 3)
    (tmp_path / "big-Q4_K_M.gguf").symlink_to(embedded.PATH)
    assert main(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["demo"]["purpose"], rows["demo"]["option"]) == ("text", "-m demo")
    for name, purpose in {"first": "embeddings", "mean": "embeddings", "ranks": "ranking"}.items():
        row = rows[f"llama.cpp:{name}"]
        assert (row["purpose"], row["option"]) == (purpose, None)
    damaged = rows["llama.cpp:damaged"]
    assert (damaged["purpose"], damaged["bits"], damaged["claim"]) == (None, None, None)
    assert (rows["demo"]["bits"], rows["demo"]["claim"]) == (8.52, None)
    renamed = rows["llama.cpp:big-Q4_K_M"]
    assert (renamed["bits"], renamed["claim"]) == (8.52, "Q4_K_M")
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (listed,) = [line for line in lines if line.startswith("llama.cpp:damaged")]
    assert " unreadable " in listed
    (listed,) = [line for line in lines if line.startswith("llama.cpp:big-Q4_K_M")]
    assert " 8.5, not Q4_K_M " in listed
