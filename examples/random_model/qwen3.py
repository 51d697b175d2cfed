"""What a GGUF file says of a model of the Qwen3 architecture: its sizes and its tokenizer."""

from dataclasses import dataclass

import gguf

from examples.random_model.vocabulary import Tokens


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes, named as llama.cpp does; `context_length` is in tokens."""

    n_embd: int = 64
    n_layer: int = 2
    n_head: int = 2
    n_head_kv: int = 1
    n_ff: int = 128
    head_dim: int = 64
    context_length: int = 4096
    rope_base: float = 1e6
    norm_epsilon: float = 1e-6


def add_sizes(writer: gguf.GGUFWriter, shape: Shape) -> None:
    """Tells llama.cpp the sizes."""
    writer.add_block_count(shape.n_layer)
    writer.add_context_length(shape.context_length)
    writer.add_embedding_length(shape.n_embd)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_rope_freq_base(shape.rope_base)


def add_tokenizer(writer: gguf.GGUFWriter, tokens: Tokens, chat_template: str | None) -> None:
    """Stores the vocabulary, and the chat template if there is one."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(tokens.pre)
    writer.add_token_list(tokens.tokens)
    writer.add_token_types(tokens.types)
    writer.add_token_merges(tokens.merges)
    writer.add_eos_token_id(tokens.eos)
    writer.add_add_bos_token(False)
    if tokens.bos is not None:
        writer.add_bos_token_id(tokens.bos)
    if tokens.pad is not None:
        writer.add_pad_token_id(tokens.pad)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
