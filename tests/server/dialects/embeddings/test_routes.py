"""Embeddings over HTTP, in the APIs of OpenAI, llama-server and Ollama."""

import asyncio
import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import httpx
import numpy as np
import openai
import pytest

from constrained.errors import ModelError, RequestError
from constrained.model.embedding.embedding_model import (
    EmbeddingModel,
    load_embeddings,
)
from server.app import make_app
from server.commands.embedding_options import find_embedding_service
from server.errors import HttpError
from server.models.embedding_service import EmbeddingInput, EmbeddingService
from server.settings import Settings
from tests.embedding_file import LENGTH, WIDTH, write_embedding_model
from tests.scripted_model import OPENED, scripted
from tests.server.commands.serve_arguments import read
from tests.server.running_server import running, wait_until

TEXTS = ["the cat sits", "the dog runs"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert") / "bert.gguf"
    return write_embedding_model(path, gguf.PoolingType.MEAN)


@pytest.fixture(scope="module")
def client(path: Path) -> Iterator[httpx.Client]:
    service = EmbeddingService("bert", lambda: load_embeddings(path), Settings())
    with running(scripted("Hello", turn=OPENED), embedding=service) as client:
        yield client


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[EmbeddingModel]:
    with load_embeddings(path) as model:
        yield model


def test_openai_has_vectors_as_numbers_and_as_base64(
    client: httpx.Client, model: EmbeddingModel
) -> None:
    right = model.embed(TEXTS).vectors
    with openai.OpenAI(base_url=str(client.base_url.join("/v1")), api_key="none") as sdk:
        reply = sdk.embeddings.create(model="bert", input=TEXTS)  # the SDK asks for base64
    assert np.allclose([row.embedding for row in reply.data], right, atol=1e-6)
    assert [row.index for row in reply.data] == [0, 1]
    assert (reply.model, reply.usage.prompt_tokens, reply.usage.total_tokens) == ("bert", 10, 10)
    body = client.post("/v1/embeddings", json={"input": TEXTS[0]}).json()
    assert np.allclose(body["data"][0]["embedding"], right[0], atol=1e-6)
    body = client.post("/v1/embeddings", json={"input": TEXTS, "encoding_format": "base64"}).json()
    decoded = np.frombuffer(base64.b64decode(body["data"][1]["embedding"]), "<f4")
    assert np.allclose(decoded, right[1], atol=1e-6)


def test_ollamas_path(client: httpx.Client, model: EmbeddingModel) -> None:
    body = client.post("/api/embed", json={"model": "bert", "input": TEXTS}).json()
    assert np.allclose(body["embeddings"], model.embed(TEXTS).vectors, atol=1e-6)
    assert (body["model"], body["prompt_eval_count"]) == ("bert", 10)
    body = client.post("/api/embed", json={"input": "a " * 100}).json()
    assert body["prompt_eval_count"] == LENGTH
    response = client.post("/api/embed", json={"input": "a " * 100, "truncate": False})
    assert response.status_code == 400
    assert "context length is 64 tokens" in response.json()["error"]
    assert client.post("/api/embed", json={"input": []}).json()["embeddings"] == []
    response = client.post("/api/embeddings", json={"prompt": TEXTS[0]})
    assert response.status_code == 404
    assert "/api/embed" in response.json()["error"]


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ({}, "/input", "no text"),
        ({"input": []}, "/input", "no text"),
        ({"input": ""}, "/input", "empty"),
        ({"input": [""]}, "/input/0", "empty"),
        ({"input": "a", "dimensions": True}, "/dimensions", "integer"),
        ({"input": ["a", ""]}, "/input/1", "empty"),
        ({"content": ["a"]}, "/content", "as input"),
        ({"input": [[1], [999]]}, "/input/1", "not a token"),
        ({"input": [1, 999]}, "/input", "not a token"),
        ({"input": ["a", 1]}, "/input/1", "string"),
        ({"input": "a", "dimensions": 0}, "/dimensions", f"1 to {WIDTH}"),
        ({"input": "a", "encoding_format": "hex"}, "/encoding_format", "float"),
        ({"input": ["a"] * 2049}, "/input/2048", "2,049 texts"),
        ({"input": "a", "embd_normalize": 1}, "/embd_normalize", "as input"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    client: httpx.Client, body: dict[str, Any], place: str, message: str
) -> None:
    response = client.post("/v1/embeddings", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, place)
    assert message in error["message"]


@pytest.mark.parametrize("text", ["a " * 100, "1" * 100_000])
def test_a_long_text_is_refused(client: httpx.Client, text: str) -> None:
    error = client.post("/v1/embeddings", json={"input": ["a"] * 20 + [text]}).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "/input/20"


def test_a_model_that_is_being_loaded_is_said(path: Path) -> None:
    is_wanted = threading.Event()

    def load() -> EmbeddingModel:
        is_wanted.wait()
        return load_embeddings(path)

    service = EmbeddingService("bert", load, Settings())
    service.start(None)
    try:
        with pytest.raises(HttpError, match="being loaded"):
            service.find_model()
    finally:
        is_wanted.set()
        service.close()


def test_two_models_have_two_names(path: Path) -> None:
    service = EmbeddingService("demo", lambda: load_embeddings(path), Settings())
    with pytest.raises(RequestError, match="demo names two models"):
        make_app(lambda: scripted("x"), embedding=service)


def test_many_texts_of_one_client_keep_no_other_waiting(path: Path) -> None:
    service = EmbeddingService("bert", lambda: load_embeddings(path), Settings())
    service.start(None)
    wait_until(lambda: not service.is_loading)
    done: list[int] = []

    async def embed(count: int) -> None:
        read = await service.read(EmbeddingInput(["the cat"] * count, "/input"))
        async for _ in read.write(str):
            pass
        done.append(len(read.tokens))

    async def embed_all() -> None:
        await asyncio.gather(embed(2000), embed(1), embed(40))

    try:
        asyncio.run(embed_all())
    finally:
        service.close()
    assert done == [1, 40, 2000]


def test_the_model_is_listed(client: httpx.Client) -> None:
    entries = client.get("/v1/models").json()["data"]
    assert [entry["id"] for entry in entries] == ["demo", "bert"]
    meta = client.get("/v1/models/bert").json()["meta"]
    assert (meta["architecture"], meta["n_embd"], meta["n_ctx"]) == ("bert", WIDTH, LENGTH)
    assert meta["purpose"] == "embeddings"
    tags = client.get("/api/tags").json()["models"]
    assert [tag["name"] for tag in tags] == ["demo", "bert"]
    assert tags[1]["capabilities"] == ["embedding"]
    assert tags[1]["details"]["context_length"] == LENGTH
    loaded = client.get("/api/ps").json()["models"]
    assert [tag["name"] for tag in loaded] == ["demo", "bert"]
    for name in ("bert", "bert:latest"):
        shown = client.post("/api/show", json={"model": name}).json()
        assert shown["capabilities"] == ["embedding"]
        shown = client.post(f"/api/show?model={name}", json={"model": "demo"}).json()
        assert shown["capabilities"] == ["embedding"]  # the query goes first
    for query, named in (("", "demo"), ("?model=demo", "bert")):
        shown = client.post(f"/api/show{query}", json={"model": named}).json()
        assert "tools" in shown["capabilities"]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings", "/api/embed"])
def test_without_such_a_model_there_are_none(path: str) -> None:
    with running(scripted("Hello", turn=OPENED)) as client:
        response = client.post(path, json={"input": "a", "prompt": "a"})
    assert response.status_code == 501
    assert "--embedding-model FILE" in response.text


def test_a_model_that_cannot_be_loaded_is_said() -> None:
    def load() -> EmbeddingModel:
        raise ModelError("it is damaged")

    service = EmbeddingService("broken", load, Settings())
    with running(scripted("Hello", turn=OPENED), embedding=service) as client:
        response = client.post("/v1/embeddings", json={"input": "a"})
        assert response.status_code == 503
        assert "it is damaged" in response.text


def test_the_command_names_the_model(path: Path) -> None:
    options = read("--embedding-model", str(path), "--embedding-context", "32")
    service = find_embedding_service(options, Settings())
    assert service is not None
    assert service.name == "bert"
    assert find_embedding_service(read(), Settings()) is None
    with pytest.raises(RequestError, match="no model for embeddings"):
        find_embedding_service(read("--pooling", "mean"), Settings())
    with pytest.raises(ModelError, match=r"(?i)no such file"):
        find_embedding_service(read("--embedding-model", "missing.gguf"), Settings())
