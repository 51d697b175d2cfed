# pyright: reportMissingImports=false
"""Causal attention, with a backward pass for CPUs that have fast 16-bit matrix products.

PyTorch's own takes most of a training step there. This one recomputes the weights in blocks of
queries and leaves out what the causal mask hides; compiled, it takes about two thirds of the time.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = 192  # queries


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What each query gathers from the values up to its own place; rows, heads, places, sizes."""
    if queries.is_cuda or not torch.is_grad_enabled():
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return _Attention.apply(queries, keys, values)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        attend_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, sums = attend_on_cpu(queries, keys, values, 0.0, True)
        ctx.save_for_backward(queries, keys, values, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values, out, sums = ctx.saved_tensors
        gradient, length, scale = gradients[0], queries.shape[2], queries.shape[3] ** -0.5
        # Numbers to add, not places to compare: the compiler makes fast code of that.
        hidden = torch.full((length, length), float("-inf"), device=queries.device).triu(1)
        sums = sums.contiguous()
        mean = (gradient.float() * out.float()).sum(-1, keepdim=True)
        of_keys = torch.zeros_like(keys, dtype=torch.float32)
        of_values = torch.zeros_like(values, dtype=torch.float32)
        of_queries: list[Tensor] = []  # the compiler cannot trace `list[Tensor]()`
        for start in range(0, length, BLOCK):
            end = min(start + BLOCK, length)
            some, above = queries[:, :, start:end], gradient[:, :, start:end]
            seen, given = keys[:, :, :end], values[:, :, :end]
            scores = (some @ seen.transpose(-1, -2)).float() * scale
            weights = torch.exp(scores - sums[:, :, start:end, None] + hidden[start:end, :end])
            change = (above @ given.transpose(-1, -2)).float() - mean[:, :, start:end]
            change = (weights * change * scale).to(queries.dtype)
            of_queries.append(change @ seen)
            of_keys[:, :, :end] += change.transpose(-1, -2) @ some
            of_values[:, :, :end] += weights.to(values.dtype).transpose(-1, -2) @ above
        whole = torch.cat(of_queries, dim=2)
        return whole, of_keys.to(keys.dtype), of_values.to(values.dtype)
