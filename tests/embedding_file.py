"""A tiny BERT of random weights: a model that reads both ways, and says how it makes one vector of
those of its tokens."""

from contextlib import closing
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, LENGTH = 32, 2, 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNKNOWN, FIRST, LAST = 1, 2, 3
# llama.cpp marks the beginnings of words, where BERT marks what goes on.
WORDS = ["\u2581" + word for word in "the a cat dog sits runs on in mat rain weather mail".split()]
ENDINGS = ["s", "ing", "y"]


def write_embedding_model(path: Path, pooling: gguf.PoolingType | None) -> Path:
    """Writes the file, and returns its path.

    Args:
        pooling: what the file says; None: nothing.
    """
    tokens = [*SPECIAL, *WORDS, *ENDINGS]
    generator = np.random.default_rng(0)
    with closing(gguf.GGUFWriter(path, arch="bert")) as writer:
        writer.add_context_length(LENGTH)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(2 * WIDTH)
        writer.add_block_count(1)
        writer.add_head_count(HEADS)
        writer.add_layer_norm_eps(1e-12)
        writer.add_causal_attention(False)
        if pooling is not None:
            writer.add_pooling_type(pooling)
        writer.add_tokenizer_model("bert")
        writer.add_tokenizer_pre("jina-v2-en")
        writer.add_token_type_count(1)
        writer.add_token_list(tokens)
        special = gguf.TokenType.CONTROL
        kinds = [special] * len(SPECIAL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
        writer.add_token_types(kinds)
        writer.add_unk_token_id(UNKNOWN)
        writer.add_bos_token_id(FIRST)
        writer.add_sep_token_id(LAST)
        writer.add_pad_token_id(0)

        def add(name: str, *shape: int) -> None:
            values = generator.standard_normal(shape, np.float32)
            writer.add_tensor(f"{name}.weight", values)

        def add_with_bias(name: str, *shape: int) -> None:
            add(name, *shape)
            writer.add_tensor(f"{name}.bias", np.zeros(shape[0], np.float32))

        add("token_embd", len(tokens), WIDTH)
        add("token_types", 1, WIDTH)
        add("position_embd", LENGTH, WIDTH)
        add_with_bias("token_embd_norm", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add_with_bias(f"blk.0.{name}", WIDTH, WIDTH)
        add_with_bias("blk.0.attn_output_norm", WIDTH)
        add_with_bias("blk.0.ffn_up", 2 * WIDTH, WIDTH)
        add_with_bias("blk.0.ffn_down", WIDTH, 2 * WIDTH)
        add_with_bias("blk.0.layer_output_norm", WIDTH)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    return path
