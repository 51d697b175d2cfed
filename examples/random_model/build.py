"""Writes a GGUF model of the Qwen3 architecture with random weights."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType

from examples.random_model.qwen3 import Shape, add_sizes, add_tokenizer
from examples.random_model.tensors import Tensor, add_name, matrix, norm, write_tensors
from examples.random_model.vocabulary import Tokens

SMALL = Shape()
QWEN3_0_6B = Shape(n_embd=1024, n_layer=28, n_head=16, n_head_kv=8, n_ff=3072, head_dim=128)


def write_model(
    path: Path,
    tokens: Tokens,
    chat_template: str | None,
    *,
    seed: int = 0,
    dtype: GGMLQuantizationType = GGMLQuantizationType.F16,
    scale: float = 3.0,
    shape: Shape = SMALL,
    **sizes: int,
) -> Path:
    """Writes a model that llama.cpp loads, replacing what is there, and returns `path`.

    Args:
        chat_template: the Jinja text, or None to store none.
        seed: the same seed and other arguments give the same file.
        dtype: of the matrices: F32, F16, BF16, Q8_0, or another that `gguf.quantize` knows.
        scale: standard deviation that the logits of a position have over the vocabulary.
        sizes: fields of `Shape` that differ from `shape`, such as `n_layer=4`.

    Raises TypeError for a size that `Shape` lacks, OSError if the file cannot be written.
    """
    shape = replace(shape, **sizes)
    tensors = list(_tensors(shape, len(tokens.tokens), dtype, scale))
    with closing(gguf.GGUFWriter(path, arch="qwen3")) as writer:
        add_name(writer, dtype)
        add_sizes(writer, shape)
        add_tokenizer(writer, tokens, chat_template)
        write_tensors(writer, tensors, np.random.default_rng(seed))
    return path


def _tensors(
    shape: Shape, n_vocab: int, dtype: GGMLQuantizationType, scale: float
) -> Iterator[Tensor]:
    # The embeddings are also the output matrix, so their size is that of the logits.
    yield matrix("token_embd", n_vocab, shape.n_embd, dtype, gain=scale)
    yield norm("output_norm", shape.n_embd)
    for layer in range(shape.n_layer):
        yield from _block(f"blk.{layer}", shape, dtype)


def _block(name: str, shape: Shape, dtype: GGMLQuantizationType) -> Iterator[Tensor]:
    width = shape.n_embd
    n_query, n_key = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    yield norm(f"{name}.attn_norm", width)
    yield matrix(f"{name}.attn_q", n_query, width, dtype)
    yield matrix(f"{name}.attn_k", n_key, width, dtype)
    yield matrix(f"{name}.attn_v", n_key, width, dtype)
    yield norm(f"{name}.attn_q_norm", shape.head_dim)
    yield norm(f"{name}.attn_k_norm", shape.head_dim)
    # What the blocks add must outweigh the embedding of the last token: tied to the output
    # matrix, that embedding would make each token predict itself.
    yield matrix(f"{name}.attn_output", width, n_query, dtype, gain=2.0)
    yield norm(f"{name}.ffn_norm", width)
    yield matrix(f"{name}.ffn_gate", shape.n_ff, width, dtype)
    yield matrix(f"{name}.ffn_up", shape.n_ff, width, dtype)
    yield matrix(f"{name}.ffn_down", width, shape.n_ff, dtype, gain=4.0)
