"""Tensors of random weights, and how a GGUF file stores them."""

from dataclasses import dataclass
from math import prod

import gguf
import numpy as np
from gguf import GGMLQuantizationType


@dataclass(frozen=True)
class Tensor:
    """A tensor that is not made before it is written; a norm has no deviation, and is all ones."""

    name: str
    shape: tuple[int, ...]  # in numpy's order: outputs before inputs
    deviation: float | None = None
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32

    @property
    def n_bytes(self) -> int:
        """What it takes in the file."""
        block, size = gguf.GGML_QUANT_SIZES[self.dtype]
        return prod(self.shape) * size // block

    def data(self, random: np.random.Generator) -> np.ndarray:
        """The values, as the file stores them."""
        if self.deviation is None:
            return np.ones(self.shape, dtype=np.float32)
        values = random.standard_normal(self.shape, dtype=np.float32)
        values *= np.float32(self.deviation)
        return gguf.quantize(values, self.dtype)


def matrix(
    name: str, n_out: int, n_in: int, dtype: GGMLQuantizationType, gain: float = 1.0
) -> Tensor:
    """Weights that make of inputs of unit size outputs of size `gain`."""
    return Tensor(f"{name}.weight", (n_out, n_in), gain / n_in**0.5, dtype)


def norm(name: str, size: int) -> Tensor:
    """The weights of a norm."""
    return Tensor(f"{name}.weight", (size,))


def add_name(writer: gguf.GGUFWriter, dtype: GGMLQuantizationType) -> None:
    """Says what the model is, and what most of its weights are stored as."""
    kind = "ALL_F32" if dtype == GGMLQuantizationType.F32 else f"MOSTLY_{dtype.name}"
    writer.add_name("random weights")
    writer.add_file_type(gguf.LlamaFileType[kind])


def write_tensors(
    writer: gguf.GGUFWriter, tensors: list[Tensor], random: np.random.Generator
) -> None:
    """Writes the file: what was added to the writer, then the tensors."""
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
