"""Texts as vectors: a random BERT, and the demo model, in the real llama.cpp."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from constrained import ToolSearch, load_embeddings
from constrained.engine.model_files import embedded
from constrained.errors import ContextError, ModelError, RequestError
from constrained.model.embedding.embedding_model import EmbeddingModel
from grammars.errors import Error
from tests.embedding_file import FIRST, LAST, LENGTH, WIDTH, write_embedding_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddingModel]:
    path = tmp_path_factory.mktemp("bert") / "bert.gguf"
    with load_embeddings(write_embedding_model(path, gguf.PoolingType.MEAN)) as model:
        yield model


def test_vectors_are_those_of_each_text_alone(model: EmbeddingModel) -> None:
    texts = [f"the {animal} {verb}" for animal in ("cat", "dog") for verb in ("runs", "sits")] * 12
    together = model.embed(texts)  # several batches
    assert together.vectors.shape == (len(texts), WIDTH)
    for text, vector in zip(texts, together.vectors, strict=True):
        assert np.allclose(model.embed([text]).vectors[0], vector, atol=1e-6)
    assert together.tokens == (5,) * len(texts)
    assert np.allclose(np.linalg.norm(together.vectors, axis=1), 1, atol=1e-6)
    assert not np.allclose(together.vectors[0], together.vectors[1], atol=1e-3)


def test_words_are_read_both_ways(model: EmbeddingModel) -> None:
    first, other = model.embed(["cat on the mat", "mat on the cat"]).vectors
    assert not np.allclose(first, other, atol=1e-3)


def test_tokens_stand_for_a_text(model: EmbeddingModel) -> None:
    of_text = model.embed(["the cat"]).vectors
    of_tokens = model.embed([[FIRST, 5, 7, LAST]]).vectors
    assert np.array_equal(of_text, of_tokens)


def test_special_tokens_in_a_text_are_text(model: EmbeddingModel) -> None:
    assert model.embed(["[SEP]"]).tokens[0] > 3


def test_vectors_are_cut_and_have_their_length(model: EmbeddingModel) -> None:
    whole = model.embed(["the cat"], normalize=False).vectors[0]
    cut = model.embed(["the cat"], dimensions=4).vectors[0]
    assert np.allclose(cut, whole[:4] / np.linalg.norm(whole[:4]), atol=1e-6)
    assert not np.isclose(np.linalg.norm(whole), 1)


@pytest.mark.parametrize(
    ("texts", "where", "message"),
    [
        (["a", ""], "/1", "empty"),
        ([[]], "/0", "empty"),
        ([[5, 999]], "/0", "999 is not a token"),
        ([[-1]], "/0", "-1 is not a token"),
        (["\ud800"], "/0", "surrogate"),
    ],
)
def test_a_text_that_cannot_be(
    model: EmbeddingModel, texts: list[str | list[int]], where: str, message: str
) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        model.embed(texts)
    assert caught.value.where == where


@pytest.mark.parametrize("dimensions", [0, -1, WIDTH + 1])
def test_dimensions_are_those_of_the_model(model: EmbeddingModel, dimensions: int) -> None:
    with pytest.raises(RequestError, match=f"must be 1 to {WIDTH}"):
        model.embed(["a"], dimensions=dimensions)


def test_a_long_text_is_refused_or_cut_where_that_is_asked_for(model: EmbeddingModel) -> None:
    with pytest.raises(ContextError, match=f"is {LENGTH} .* has {LENGTH + 38} tokens") as found:
        model.embed(["a", "a " * 100])
    assert found.value.where == "/1"
    (cut,) = model.read(["a " * 100], truncate=True)
    assert (len(cut), cut[0], cut[-1]) == (LENGTH, FIRST, LAST)
    assert model.embed([[5] * 100], truncate=True).tokens == (LENGTH,)


def test_a_word_without_end_is_refused_at_once(model: EmbeddingModel) -> None:
    """llama.cpp's tokenizer takes the square of its length, or the process."""
    with pytest.raises(ContextError, match="1,000,000 bytes"):
        model.embed(["1" * 1_000_000])
    with load_embeddings(embedded.PATH, pooling="mean") as long:
        assert long.read(["1" * 100_000], truncate=True)[0]


def test_a_model_that_is_closed_says_so(tmp_path: Path) -> None:
    model = load_embeddings(write_embedding_model(tmp_path / "b.gguf", gguf.PoolingType.MEAN))
    model.close()
    for ask in (lambda: model.embed(["a"]), lambda: model.compute([[5]])):
        with pytest.raises(ModelError, match="closed"):
            ask()


def test_one_text_is_no_list(model: EmbeddingModel) -> None:
    with pytest.raises(RequestError, match=r"Give a list: \[text\]"):
        model.embed("the cat")


def test_the_work_ends_between_batches(model: EmbeddingModel) -> None:
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        model.embed(["the cat"] * 100, check=check)


def test_tools_are_found_by_what_they_mean(model: EmbeddingModel) -> None:
    def rain() -> None:
        """the rain weather"""

    def post() -> None:
        """the mail"""

    texts = {"rain": "rain weather", "post": "mail"}
    search = ToolSearch([rain, post], rank=model.order_by(texts))
    assert search.rank is not None
    assert search.rank("weather rain") == ["rain", "post"]
    assert search.rank("mail") == ["post", "rain"]


@pytest.mark.parametrize(
    ("stated", "message"),
    [(None, "does not state how"), (gguf.PoolingType.RANK, "ranks pairs of texts")],
)
def test_a_file_that_makes_no_vectors(
    tmp_path: Path, stated: gguf.PoolingType | None, message: str
) -> None:
    path = write_embedding_model(tmp_path / "bert.gguf", stated)
    with pytest.raises(ModelError, match=message):
        load_embeddings(path)


def test_a_model_that_writes_has_vectors_if_it_is_told_how_to_pool() -> None:
    with pytest.raises(ModelError, match="does not state how"):
        load_embeddings(embedded.PATH)
    with load_embeddings(embedded.PATH, pooling="last", context_length=32) as model:
        assert (model.context_length, model.path) == (32, embedded.PATH)
        near, far, text = model.embed(["It rains today", "x = y + z", "It rains now"]).vectors
        assert near @ text > far @ text


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="must be mean, cls, last"):
        load_embeddings(embedded.PATH, pooling="max")  # type: ignore[arg-type]
    with pytest.raises(Error, match=r"(?i)no such file"):
        load_embeddings(tmp_path / "missing.gguf")
