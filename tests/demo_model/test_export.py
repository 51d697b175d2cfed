"""The exported file says in llama.cpp what the network says here."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="extra train")

from examples.demo_model.export import KINDS, export, quantise
from examples.demo_model.feed import Encoder
from examples.demo_model.network import Network, Shape
from examples.demo_model.tensors import restore_weights
from examples.demo_model.vocabulary import load_vocabulary
from tests.llama_c_api import loaded

TEXT = (
    "<|im_start|>user\nWhat's the weather in Zürich at 18:30 – 20°C?<|im_end|>\n"
    '<|im_start|>assistant\n<tool_call>\n{"name": "getWeather", "arguments": {"city": "Zürich"}}\n'
    "</tool_call><|im_end|>"
)


@pytest.fixture(scope="module")
def network() -> Network:
    torch.manual_seed(3)
    network = Network(Shape(n_vocab=len(load_vocabulary().tokens), n_layer=3))
    with torch.no_grad():
        network.embedding.mul_(10)
    return network


def run(path: Path, tokens: list[int]) -> np.ndarray:
    with loaded(path) as model:
        return np.stack([model.logits(tokens[: end + 1]) for end in range(0, len(tokens), 7)])


def ours(network: Network, tokens: list[int]) -> np.ndarray:
    with torch.no_grad():
        return network(torch.tensor([tokens]))[0, ::7].numpy()


def test_logits_agree(network: Network, tmp_path: Path):
    tokens = Encoder().encode(TEXT)
    wanted = ours(network, tokens)
    got = run(export(network, tmp_path / "m.gguf", np.float32), tokens)
    assert np.abs(got - wanted).max() < 0.02 * wanted.std()
    assert (got.argmax(-1) == wanted.argmax(-1)).all()


def test_training_can_go_on_from_a_file(network: Network, tmp_path: Path):
    full = export(network, tmp_path / "m.gguf", np.float32)
    small = quantise(full, tmp_path / "q.gguf", "Q8_0")
    for path, tolerance in ((full, 0.0), (small, 0.01)):
        other = Network(network.shape)
        restore_weights(other, path)
        for name, wanted in network.state_dict().items():
            got = other.state_dict()[name]
            assert (got - wanted).abs().max() <= tolerance * wanted.abs().max(), name
    with pytest.raises(ValueError, match=r"blk\.2"):
        restore_weights(Network(Shape(n_vocab=network.shape.n_vocab, n_layer=2)), full)


def test_tokens_agree(network: Network, tmp_path: Path):
    path = export(network, tmp_path / "m.gguf")
    encoder = Encoder()
    odd = " a  b\n\n12345 x_y camelCase 日本 <|im_end|> {}}}]"
    with loaded(path, vocab_only=True) as model:
        for text in (TEXT, odd, '{"a": {"b": ["c"]}}'):
            assert model.tokenize(text) == encoder.encode(text)


@pytest.mark.parametrize("kind", KINDS)
def test_quantised(network: Network, tmp_path: Path, kind: str):
    tokens = Encoder().encode(TEXT)
    full = export(network, tmp_path / "m.gguf")
    small = quantise(full, tmp_path / f"{kind}.gguf", kind)
    assert small.stat().st_size < full.stat().st_size
    wanted = ours(network, tokens)
    got = run(small, tokens)
    limit = {"Q8_0": 0.15, "Q4_K_M": 1.0, "Q2_K": 2.0}[kind]
    assert np.abs(got - wanted).mean() < limit * wanted.std()
