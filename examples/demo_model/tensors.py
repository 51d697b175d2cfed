# pyright: reportMissingImports=false
"""What llama.cpp calls the tensors of a network, and how an exported one is read back."""

from pathlib import Path

import gguf
import torch
from gguf.quants import dequantize

from examples.demo_model.network import Network


BLOCK = {
    "attention_norm": "attn_norm",
    "attention.query": "attn_q",
    "attention.key": "attn_k",
    "attention.value": "attn_v",
    "attention.output": "attn_output",
    "attention.query_norm": "attn_q_norm",
    "attention.key_norm": "attn_k_norm",
    "feed_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def rename(key: str) -> str:
    """What llama.cpp calls a tensor of the network."""
    match key.split("."):
        case ["embedding"]:
            return "token_embd.weight"
        case ["norm", "weight"]:
            return "output_norm.weight"
        case ["blocks", number, *path, "weight"]:
            return f"blk.{number}.{BLOCK['.'.join(path)]}.weight"
    raise ValueError(f"llama.cpp has no tensor for {key}")


def restore_weights(network: Network, path: Path) -> None:
    """Copies the weights of a GGUF file that `export` has written, of any kind, into a network.

    Raises:
        ValueError: the file is of another shape.
    """
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    state = network.state_dict()
    names = {rename(key): key for key in state}
    if tensors.keys() != names.keys():
        raise ValueError(f"{path} has other tensors than the network: {tensors.keys() ^ names.keys()}")
    for name, key in names.items():
        weights = torch.from_numpy(dequantize(tensors[name].data, tensors[name].tensor_type).copy())
        if weights.shape != state[key].shape:
            raise ValueError(f"{path}: {name} is {weights.shape}, the network has {state[key].shape}")
        state[key].copy_(weights)
