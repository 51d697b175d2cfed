"""A model file whose model keeps one state, and no past."""

from pathlib import Path

import gguf
import numpy as np

from examples.random_model import MARKERS, load_small, with_markers
from examples.random_model.qwen3 import add_tokenizer
from tests.templates import HERMES


def write_recurrent(path: Path) -> Path:
    """A Mamba of one layer: it keeps one state, and no past."""
    tokens = with_markers(load_small(), MARKERS)
    width, inner, state, rank, kernel = 32, 64, 16, 2, 4
    writer = gguf.GGUFWriter(path, arch="mamba")
    writer.add_context_length(1024)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(1)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    add_tokenizer(writer, tokens, HERMES)
    random = np.random.default_rng(0)
    shapes = {
        "token_embd.weight": (len(tokens.tokens), width),
        "output_norm.weight": (width,),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ssm_in.weight": (2 * inner, width),
        "blk.0.ssm_conv1d.weight": (inner, kernel),
        "blk.0.ssm_conv1d.bias": (inner,),
        "blk.0.ssm_x.weight": (rank + 2 * state, inner),
        "blk.0.ssm_dt.weight": (inner, rank),
        "blk.0.ssm_dt.bias": (inner,),
        "blk.0.ssm_a": (inner, state),
        "blk.0.ssm_d": (inner,),
        "blk.0.ssm_out.weight": (width, inner),
    }
    for name, shape in shapes.items():
        weights = random.standard_normal(shape, np.float32)
        writer.add_tensor(name, -np.abs(weights) if name == "blk.0.ssm_a" else weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
