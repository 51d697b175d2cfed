# pyright: reportMissingImports=false
"""The network: a decoder of the Qwen3 architecture, small enough to train on a CPU."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.demo_model.attention import attend
from examples.random_model import qwen3


@dataclass(frozen=True, kw_only=True)
class Shape(qwen3.Shape):
    """Sizes of the network. Row lengths are multiples of 256: K-quants pack so many weights of a
    row together."""

    n_vocab: int
    n_embd: int = 256
    n_layer: int = 8
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 512
    context_length: int = 2048
    rope_base: float = 10_000.0


class Norm(nn.Module):
    """Root mean square norm with a learned gain."""

    def __init__(self, size: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return (wide * scale * self.weight).to(x.dtype)


class Matrix(nn.Module):
    """A linear map whose weights stay in 32 bits, and are rounded to the type of its input."""

    def __init__(self, n_out: int, n_in: int, gain: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * gain / n_in**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.to(x.dtype))


def rotations(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding, one row a position."""
    half = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(torch.arange(length, dtype=torch.float64), shape.rope_base**-half)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turns the two halves of each head against each other, as llama.cpp's NEOX rotation does."""
    left, right = x.chunk(2, dim=-1)
    turned = torch.cat((-right, left), dim=-1)
    return x * cosines.to(x.dtype) + turned * sines.to(x.dtype)


class Attention(nn.Module):
    """Causal attention with grouped heads, and norms on queries and keys."""

    def __init__(self, shape: Shape):
        super().__init__()
        n_query, n_key = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
        self.shape = shape
        self.query = Matrix(n_query, shape.n_embd)
        self.key = Matrix(n_key, shape.n_embd)
        self.value = Matrix(n_key, shape.n_embd)
        self.output = Matrix(shape.n_embd, n_query, gain=(2 * shape.n_layer) ** -0.5)
        self.query_norm = Norm(shape.head_dim, shape.norm_epsilon)
        self.key_norm = Norm(shape.head_dim, shape.norm_epsilon)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        shape, (n_row, length, _) = self.shape, x.shape
        queries = self.query(x).view(n_row, length, shape.n_head, shape.head_dim)
        keys = self.key(x).view(n_row, length, shape.n_head_kv, shape.head_dim)
        values = self.value(x).view(n_row, length, shape.n_head_kv, shape.head_dim)
        queries = rotate(self.query_norm(queries).transpose(1, 2), cosines, sines)
        keys = rotate(self.key_norm(keys).transpose(1, 2), cosines, sines)
        group = shape.n_head // shape.n_head_kv
        mixed = attend(
            queries,
            keys.repeat_interleave(group, dim=1),
            values.transpose(1, 2).repeat_interleave(group, dim=1),
        )
        return self.output(mixed.transpose(1, 2).reshape(n_row, length, -1))


class Block(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm and added to what came in."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.attention_norm = Norm(shape.n_embd, shape.norm_epsilon)
        self.attention = Attention(shape)
        self.feed_norm = Norm(shape.n_embd, shape.norm_epsilon)
        self.gate = Matrix(shape.n_ff, shape.n_embd)
        self.up = Matrix(shape.n_ff, shape.n_embd)
        self.down = Matrix(shape.n_embd, shape.n_ff, gain=(2 * shape.n_layer) ** -0.5)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        inner = self.feed_norm(x)
        return x + self.down(functional.silu(self.gate(inner)) * self.up(inner))


class Network(nn.Module):
    """Embeddings, blocks, and the embeddings again as output matrix."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.randn(shape.n_vocab, shape.n_embd) * 0.02)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.n_layer))
        self.norm = Norm(shape.n_embd, shape.norm_epsilon)
        cosines, sines = rotations(shape, shape.context_length)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def hidden(self, tokens: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The state behind each token (rows of ids in), before the output matrix."""
        x = functional.embedding(tokens, self.embedding).to(dtype)
        cosines, sines = self.cosines[: tokens.shape[1]], self.sines[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, cosines, sines)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """How likely each token comes next."""
        return functional.linear(hidden, self.embedding.to(hidden.dtype)).float()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits(self.hidden(tokens))
