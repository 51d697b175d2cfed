"""Writes a GGUF file as a folder in the form of Hugging Face, which vLLM reads.

The weights of Llama and Qwen 3 are known, and vocabularies of byte-level BPE. No PyTorch is needed.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

Json: TypeAlias = dict[str, Any]
Weights: TypeAlias = np.ndarray[Any, Any]
CONTROL, USER_DEFINED = 3, 4  # types of tokens in a GGUF file
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
IN_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_hugging_face(model: Path, folder: Path) -> Path:
    """Writes the model into a folder, with its tokenizer and chat template; gives the folder.

    Raises:
        ValueError: its architecture or its vocabulary is another one.
    """
    reader = GGUFReader(model)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    architecture = facts["general.architecture"]
    if architecture not in ARCHITECTURES or facts["tokenizer.ggml.model"] != "gpt2":
        raise ValueError(f"{model}: {architecture} with {facts['tokenizer.ggml.model']}")
    folder.mkdir(parents=True, exist_ok=True)
    weights = dict(_read_weights(reader, facts))
    _write_json(folder / "config.json", _make_config(facts, weights))
    _write_json(folder / "tokenizer.json", _make_tokenizer(facts))
    _write_json(folder / "tokenizer_config.json", _make_tokenizer_config(facts))
    _write_safetensors(folder / "model.safetensors", weights)
    return folder


def _write_json(path: Path, value: Json) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def _read_weights(reader: GGUFReader, facts: Json) -> Iterator[tuple[str, Weights]]:
    architecture = facts["general.architecture"]
    heads = facts[f"{architecture}.attention.head_count"]
    key_heads = facts[f"{architecture}.attention.head_count_kv"]
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        match tensor.name.split("."):
            case ["blk", number, part, kind]:
                name = f"model.layers.{number}.{IN_LAYER[part]}.{kind}"
                if architecture == "llama" and part == "attn_q":
                    weights = _order_halves(weights, heads)
                if architecture == "llama" and part == "attn_k":
                    weights = _order_halves(weights, key_heads)
            case [part, kind]:
                name = f"{TOP[part]}.{kind}"
            case _:
                raise ValueError(f"unknown weights: {tensor.name}")
        yield name, weights


def _order_halves(weights: Weights, heads: int) -> Weights:
    """llama.cpp rotates neighbours, transformers the halves of a head."""
    rows = weights.shape[0]
    pairs = weights.reshape(heads, rows // heads // 2, 2, *weights.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weights.shape)


def _make_config(facts: Json, weights: dict[str, Weights]) -> Json:
    architecture = facts["general.architecture"]

    def read(name: str) -> Any:
        return facts[f"{architecture}.{name}"]

    heads = read("attention.head_count")
    head_size = weights["model.layers.0.self_attn.q_proj.weight"].shape[0] // heads
    return {
        "architectures": [ARCHITECTURES[architecture]],
        "model_type": architecture,
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        "hidden_size": read("embedding_length"),
        "intermediate_size": read("feed_forward_length"),
        "num_hidden_layers": read("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": read("attention.head_count_kv"),
        "head_dim": head_size,
        "max_position_embeddings": read("context_length"),
        "rms_norm_eps": read("attention.layer_norm_rms_epsilon"),
        "rope_theta": facts.get(f"{architecture}.rope.freq_base", 10_000.0),
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "bos_token_id": facts.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "torch_dtype": "float32",
    }


def _make_tokenizer(facts: Json) -> Json:
    tokens = facts["tokenizer.ggml.tokens"]
    added: list[Json] = []
    for token, kind in enumerate(facts["tokenizer.ggml.token_type"]):
        if kind in (CONTROL, USER_DEFINED):
            added.append(
                {
                    "id": token,
                    "content": tokens[token],
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": kind == CONTROL,
                }
            )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": _make_pre_tokenizer(facts["tokenizer.ggml.pre"]),
        "post_processor": None,
        "decoder": {**BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {text: token for token, text in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in facts["tokenizer.ggml.merges"]],
        },
    }


def _make_pre_tokenizer(name: str) -> Json:
    """What cuts a text before merges join it. An engine's mask allows of a text that is forced only
    the tokens that this cuts it into."""
    digits = {"type": "Digits", "individual_digits": True}
    # Tokens of the demo model, whose name is the first, go beyond words.
    byte_level = {**BYTE_LEVEL, "use_regex": name != "superbpe"}
    return {"type": "Sequence", "pretokenizers": [digits, byte_level]}


def _make_tokenizer_config(facts: Json) -> Json:
    tokens = facts["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokens[facts["tokenizer.ggml.eos_token_id"]],
        "chat_template": facts.get("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1_000_000,
    }


def _write_safetensors(path: Path, weights: dict[str, Weights]) -> None:
    """An index in JSON after its length, then the numbers."""
    index: Json = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, values in weights.items():
        end = start + values.nbytes
        index[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [start, end]}
        start = end
    head = json.dumps(index).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)))
        file.write(head)
        for values in weights.values():
            file.write(np.ascontiguousarray(values).tobytes())
