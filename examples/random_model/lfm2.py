"""Writes a GGUF model of the LFM2 architecture with random weights.

It is a hybrid: most of its layers are short convolutions, whose state cannot be taken back, and
some are attention.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType

from examples.random_model.qwen3 import add_tokenizer
from examples.random_model.tensors import Tensor, add_name, matrix, norm, write_tensors
from examples.random_model.vocabulary import Tokens

F32, F16 = GGMLQuantizationType.F32, GGMLQuantizationType.F16


@dataclass(frozen=True, kw_only=True)
class HybridShape:
    """Sizes, named as llama.cpp does; `context_length` is in tokens.

    `n_head_kv` tells for each layer how many heads of keys and values it has; with none it is a
    convolution over `n_shortconv_l_cache` tokens.
    """

    n_embd: int = 64
    n_head: int = 2
    n_head_kv: tuple[int, ...] = (0, 1, 0)
    n_ff: int = 128
    n_shortconv_l_cache: int = 3
    context_length: int = 4096
    rope_base: float = 1e6
    norm_epsilon: float = 1e-6

    @property
    def head_dim(self) -> int:
        """The size of one head."""
        return self.n_embd // self.n_head


def write_hybrid(
    path: Path,
    tokens: Tokens,
    chat_template: str | None,
    *,
    seed: int = 0,
    scale: float = 3.0,
    shape: HybridShape | None = None,
) -> Path:
    """Writes a model that llama.cpp loads, replacing what is there, and returns `path`.

    Args:
        chat_template: the Jinja text, or None to store none.
        seed: the same seed and other arguments give the same file.
        scale: standard deviation that the logits of a position have over the vocabulary.
        shape: its sizes; small ones if not given.

    Raises OSError if the file cannot be written.
    """
    shape = shape or HybridShape()
    tensors = list(_tensors(shape, len(tokens.tokens), scale))
    with closing(gguf.GGUFWriter(path, arch="lfm2")) as writer:
        add_name(writer, F16)
        _add_sizes(writer, shape, len(tokens.tokens))
        add_tokenizer(writer, tokens, chat_template)
        write_tensors(writer, tensors, np.random.default_rng(seed))
    return path


def _add_sizes(writer: gguf.GGUFWriter, shape: HybridShape, n_vocab: int) -> None:
    writer.add_vocab_size(n_vocab)
    writer.add_block_count(len(shape.n_head_kv))
    writer.add_context_length(shape.context_length)
    writer.add_embedding_length(shape.n_embd)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_shortconv_l_cache(shape.n_shortconv_l_cache)


def _tensors(shape: HybridShape, n_vocab: int, scale: float) -> Iterator[Tensor]:
    # The embeddings are also the output matrix, so their size is that of the logits.
    yield matrix("token_embd", n_vocab, shape.n_embd, F16, gain=scale)
    yield norm("token_embd_norm", shape.n_embd)  # the norm of the output, whatever its name says
    for layer, n_head_kv in enumerate(shape.n_head_kv):
        name = f"blk.{layer}"
        yield norm(f"{name}.attn_norm", shape.n_embd)
        yield from _attention(name, shape, n_head_kv) if n_head_kv else _convolution(name, shape)
        yield norm(f"{name}.ffn_norm", shape.n_embd)
        yield matrix(f"{name}.ffn_gate", shape.n_ff, shape.n_embd, F16)
        yield matrix(f"{name}.ffn_up", shape.n_ff, shape.n_embd, F16)
        yield matrix(f"{name}.ffn_down", shape.n_embd, shape.n_ff, F16, gain=4.0)


def _attention(name: str, shape: HybridShape, n_head_kv: int) -> Iterator[Tensor]:
    n_key = n_head_kv * shape.head_dim
    yield matrix(f"{name}.attn_q", shape.n_embd, shape.n_embd, F16)
    yield matrix(f"{name}.attn_k", n_key, shape.n_embd, F16)
    yield matrix(f"{name}.attn_v", n_key, shape.n_embd, F16)
    yield norm(f"{name}.attn_q_norm", shape.head_dim)
    yield norm(f"{name}.attn_k_norm", shape.head_dim)
    yield matrix(f"{name}.attn_output", shape.n_embd, shape.n_embd, F16, gain=2.0)


def _convolution(name: str, shape: HybridShape) -> Iterator[Tensor]:
    yield matrix(f"{name}.shortconv.in_proj", 3 * shape.n_embd, shape.n_embd, F16)
    yield matrix(f"{name}.shortconv.conv", shape.n_embd, shape.n_shortconv_l_cache, F32, gain=2.0)
    yield matrix(f"{name}.shortconv.out_proj", shape.n_embd, shape.n_embd, F16, gain=2.0)
