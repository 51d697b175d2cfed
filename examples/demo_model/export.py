# pyright: reportMissingImports=false
"""Writes a trained network as GGUF, and quantises it with llama.cpp.

    python -m examples.demo_model.export FOLDER [--name last] [--to FOLDER]

Writes model-F16.gguf, model-Q8_0.gguf, model-Q4_K_M.gguf and model-Q2_K.gguf.
"""

import argparse
import ctypes
from contextlib import closing
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np
import torch

from examples.demo_model.dialogue import chat_template
from examples.demo_model.network import Network, Shape
from examples.demo_model.tensors import rename
from examples.demo_model.vocabulary import load_vocabulary
from examples.random_model.qwen3 import add_sizes, add_tokenizer

KINDS = {
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "Q2_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K,
}


def load_network(checkpoint: Path) -> Network:
    """The network of a checkpoint that `train` has written."""
    state: dict[str, Any] = torch.load(checkpoint, map_location="cpu")
    network = Network(Shape(**state["shape"]))
    network.load_state_dict(state["network"])
    return network


def export(
    network: Network, path: Path, dtype: type[np.floating[Any]] = np.float16, name: str = "demo"
) -> Path:
    """Writes a GGUF file: matrices in `dtype`, norms in 32 bits. The output matrix is that of the
    embeddings, and left out."""
    with closing(gguf.GGUFWriter(path, arch="qwen3")) as writer:
        writer.add_name(name)
        writer.add_file_type(
            gguf.LlamaFileType.MOSTLY_F16 if dtype is np.float16 else gguf.LlamaFileType.ALL_F32
        )
        add_sizes(writer, network.shape)
        add_tokenizer(writer, load_vocabulary(), chat_template())
        for key, value in network.state_dict().items():
            tensor = value.detach().float().numpy()
            writer.add_tensor(rename(key), tensor.astype(dtype) if tensor.ndim > 1 else tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    return path


def quantise(source: Path, target: Path, kind: str) -> Path:
    """Lets llama.cpp write `source` as Q8_0, Q4_K_M or Q2_K.

    Raises:
        OSError: llama.cpp refuses.
    """
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = KINDS[kind]
    settings.nthread = 1
    paths = str(source).encode(), str(target).encode()
    if llama_cpp.llama_model_quantize(*paths, ctypes.pointer(settings)):
        raise OSError(f"llama.cpp cannot write {source} as {kind}")
    return target


def main() -> None:
    """Exports a checkpoint in all kinds, and prints the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where train.py keeps its checkpoints")
    parser.add_argument("--name", default="last", help="the checkpoint")
    parser.add_argument("--to", type=Path, help="where to write; default: the same folder")
    options = parser.parse_args()
    folder = options.to or options.folder
    folder.mkdir(parents=True, exist_ok=True)
    network = load_network(options.folder / f"{options.name}.pt")
    full = export(network, folder / "model-F16.gguf", name="constrained demo")
    files = [full, *(quantise(full, folder / f"model-{kind}.gguf", kind) for kind in KINDS)]
    for path in files:
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
