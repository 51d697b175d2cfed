# pyright: reportMissingImports=false
"""Muon for the matrices of the blocks, AdamW for the embeddings and norms."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

MATRIX_RATE, OTHER_RATE = 0.02, 3e-3
MOMENTUM, ROUNDS = 0.95, 5


def orthogonalise(matrices: Tensor) -> Tensor:
    """Roughly the nearest orthogonal matrices, by Newton and Schulz (Jordan et al. 2024, Muon)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if is_tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal; those of one shape are handled together."""

    def __init__(self, parameters: list[Tensor], lr: float = MATRIX_RATE, decay: float = 0.01):
        super().__init__(parameters, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Moves the matrices of all groups."""
        for group in self.param_groups:
            by_shape = defaultdict[tuple[int, ...], list[Tensor]](list)
            for matrix in group["params"]:
                by_shape[tuple(matrix.shape)].append(matrix)
            for shape, matrices in by_shape.items():
                self._move(matrices, shape, group["lr"], group["decay"])

    def _move(
        self, matrices: list[Tensor], shape: tuple[int, ...], lr: float, decay: float
    ) -> None:
        wanted = list[Tensor]()
        for matrix in matrices:
            state, gradient = self.state[matrix], matrix.grad
            assert gradient is not None
            momentum = state.setdefault("momentum", torch.zeros_like(matrix))
            momentum.lerp_(gradient, 1 - MOMENTUM)
            wanted.append(gradient.lerp(momentum, MOMENTUM))
        scale = max(1.0, shape[0] / shape[1]) ** 0.5
        for matrix, direction in zip(matrices, orthogonalise(torch.stack(wanted)), strict=True):
            matrix.mul_(1 - lr * decay).add_(direction, alpha=-lr * scale)


def make_optimizers(network: nn.Module, kind: str = "muon") -> list[torch.optim.Optimizer]:
    """The optimisers of a network: "muon", or "adamw" for all of it."""
    named = dict(network.named_parameters())
    matrices = [p for name, p in named.items() if p.ndim == 2 and name != "embedding"]
    others = [p for name, p in named.items() if p.ndim != 2 or name == "embedding"]
    options: dict[str, Any] = {"betas": (0.9, 0.95), "weight_decay": 0.01}
    if kind == "adamw":
        return [torch.optim.AdamW(matrices + others, lr=OTHER_RATE, **options)]
    return [Muon(matrices), torch.optim.AdamW(others, lr=OTHER_RATE, **options)]
