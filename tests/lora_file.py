"""LoRA adapters of random weights, written as GGUF."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import gguf
import numpy as np

from constrained.engine.gguf.contents import read_contents

RANK = 4
MATRICES = ("attn_q", "attn_v", "ffn_down")
STRENGTH = 0.3  # the standard deviation of weights


def write_adapter(
    path: Path,
    model: Path,
    *,
    seed: int = 0,
    architecture: str = "",
    kind: str = "lora",
    widen: int = 0,
    layers: int = 0,
    unlike: bool = False,
    tokens: Sequence[int] = (),
) -> Path:
    """Writes an adapter for some matrices of all layers of a model, and returns its path.

    Args:
        path: of the adapter.
        model: a GGUF file.
        seed: of its weights.
        architecture: what it says it is for; default: that of the model.
        kind: what it says it is.
        widen: how much wider its matrices are than those of the model.
        layers: by how many layers it is for a deeper model.
        unlike: the matrices of a pair, for the embeddings, have different ranks.
        tokens: those that activate it, if it is not always active.
    """
    contents = read_contents(model)
    generator = np.random.default_rng(seed)
    with closing(gguf.GGUFWriter(path, arch=architecture or contents.architecture)) as writer:
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, kind)
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(RANK))
        if tokens:
            key = "adapter.alora.invocation_tokens"
            writer.add_key_value(
                key, list(tokens), gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT32
            )

        def add(name: str, *shape: int) -> None:
            values = STRENGTH * generator.standard_normal(shape, np.float32)
            writer.add_tensor(name, values)

        for tensor in contents.tensors:
            layer, _, name = tensor.name.removeprefix("blk.").partition(".")
            if name.removesuffix(".weight") in MATRICES:
                moved = f"blk.{int(layer) + layers}.{name}"
                add(f"{moved}.lora_a", RANK, tensor.shape[0] + widen)
                add(f"{moved}.lora_b", tensor.shape[1], RANK)
            if unlike and tensor.name == "token_embd.weight":
                add(f"{tensor.name}.lora_a", tensor.shape[1], RANK)
                add(f"{tensor.name}.lora_b", tensor.shape[0], 2 * RANK)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    return path
