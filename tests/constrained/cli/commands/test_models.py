"""`constrained models`: what each model on this machine was made for."""

import json
from pathlib import Path

import gguf
import pytest

from constrained.cli.parser import main
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
    assert main(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["demo"]["purpose"], rows["demo"]["option"]) == ("text", "-m demo")
    for name in ("first", "mean"):
        assert rows[f"llama.cpp:{name}"]["purpose"] == "embeddings"
        assert rows[f"llama.cpp:{name}"]["option"] == f"--embedding-model llama.cpp:{name}"
    ranks = rows["llama.cpp:ranks"]
    assert (ranks["purpose"], ranks["option"]) == ("ranking", None)
    assert rows["llama.cpp:damaged"]["purpose"] is None
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (listed,) = [line for line in lines if line.startswith("llama.cpp:damaged")]
    assert " unreadable " in listed
