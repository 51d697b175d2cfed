"""Writes a GGUF model of the Qwen3 architecture with random weights."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType

from examples.random_model.qwen3 import Shape, add_sizes, add_tokenizer
from examples.random_model.vocabulary import Tokens

SMALL = Shape()
QWEN3_0_6B = Shape(n_embd=1024, n_layer=28, n_head=16, n_head_kv=8, n_ff=3072, head_dim=128)


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: tuple[int, ...]  # in numpy's order: outputs before inputs
    deviation: float | None = None  # None: a norm, all ones
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32

    @property
    def n_bytes(self) -> int:
        block, size = gguf.GGML_QUANT_SIZES[self.dtype]
        return prod(self.shape) * size // block

    def data(self, random: np.random.Generator) -> np.ndarray:
        if self.deviation is None:
            return np.ones(self.shape, dtype=np.float32)
        values = random.standard_normal(self.shape, dtype=np.float32)
        values *= np.float32(self.deviation)
        return gguf.quantize(values, self.dtype)


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
        _add_name(writer, dtype)
        add_sizes(writer, shape)
        add_tokenizer(writer, tokens, chat_template)
        _write(writer, tensors, np.random.default_rng(seed))
    return path


def _tensors(
    shape: Shape, n_vocab: int, dtype: GGMLQuantizationType, scale: float
) -> Iterator[_Tensor]:
    # The embeddings are also the output matrix, so their size is that of the logits.
    yield _matrix("token_embd", n_vocab, shape.n_embd, dtype, gain=scale)
    yield _norm("output_norm", shape.n_embd)
    for layer in range(shape.n_layer):
        yield from _block(f"blk.{layer}", shape, dtype)


def _block(name: str, shape: Shape, dtype: GGMLQuantizationType) -> Iterator[_Tensor]:
    width = shape.n_embd
    n_query, n_key = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    yield _norm(f"{name}.attn_norm", width)
    yield _matrix(f"{name}.attn_q", n_query, width, dtype)
    yield _matrix(f"{name}.attn_k", n_key, width, dtype)
    yield _matrix(f"{name}.attn_v", n_key, width, dtype)
    yield _norm(f"{name}.attn_q_norm", shape.head_dim)
    yield _norm(f"{name}.attn_k_norm", shape.head_dim)
    # What the blocks add must outweigh the embedding of the last token: tied to the output
    # matrix, that embedding would make each token predict itself.
    yield _matrix(f"{name}.attn_output", width, n_query, dtype, gain=2.0)
    yield _norm(f"{name}.ffn_norm", width)
    yield _matrix(f"{name}.ffn_gate", shape.n_ff, width, dtype)
    yield _matrix(f"{name}.ffn_up", shape.n_ff, width, dtype)
    yield _matrix(f"{name}.ffn_down", width, shape.n_ff, dtype, gain=4.0)


def _matrix(
    name: str, n_out: int, n_in: int, dtype: GGMLQuantizationType, gain: float = 1.0
) -> _Tensor:
    # Inputs of unit size give outputs of size `gain`.
    return _Tensor(f"{name}.weight", (n_out, n_in), gain / n_in**0.5, dtype)


def _norm(name: str, size: int) -> _Tensor:
    return _Tensor(f"{name}.weight", (size,))


def _add_name(writer: gguf.GGUFWriter, dtype: GGMLQuantizationType) -> None:
    kind = "ALL_F32" if dtype == GGMLQuantizationType.F32 else f"MOSTLY_{dtype.name}"
    writer.add_name("random weights")
    writer.add_file_type(gguf.LlamaFileType[kind])


def _write(writer: gguf.GGUFWriter, tensors: list[_Tensor], random: np.random.Generator) -> None:
    for tensor in tensors:
        writer.add_tensor_info(
            tensor.name,
            tensor.shape,
            np.dtype(np.float32),  # unlike uint8: the shape counts weights, not bytes
            tensor.n_bytes,
            raw_dtype=tensor.dtype,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    # One tensor at a time: a large model never lies in memory as a whole.
    for tensor in tensors:
        writer.write_tensor_data(tensor.data(random))
