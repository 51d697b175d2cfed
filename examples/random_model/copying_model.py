"""A GGUF model that writes what its prompt says: each token is the one that stands a fixed distance
before it. A server of llama.cpp then writes any text, and its own parser reads it.

The architecture is GPT-2's, with one layer. A token is a code of random signs; a position is a
rotation at each of some frequencies. The only head that is not zero turns the code of a position
back by the distance, so that it attends to one token, whose code becomes the logits. In the prompt,
each token stands as one character of a private area, so that no template changes it.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import gguf
import numpy as np

END = "<|end of the copy|>"
"""The token that ends the text."""
_AREA = 0xE000  # the first character of Unicode's private use area
_HEAD = 64  # the size of a token's code, and of a head
_FREQUENCIES = _HEAD // 2
_WIDTH = 4 * _HEAD  # token, position, negated position, what was copied
_FEED = 32
_SHARP = 16.0


class CopyingModel:
    """A vocabulary and a distance.

    Args:
        special: texts that are one token, such as the tags of a format.
        distance: tokens from a token to its copy.
    """

    def __init__(self, special: Sequence[str], distance: int):
        self.distance = distance
        characters = [chr(code) for code in range(33, 127)]
        self._tokens = [END, *special, "▁", *characters]
        self._tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        kinds = gguf.TokenType
        self._kinds = [kinds.CONTROL]
        self._kinds += [kinds.USER_DEFINED] * len(special)
        self._kinds += [kinds.NORMAL] * (1 + len(characters))
        self._kinds += [kinds.BYTE] * 256
        self._ids = {text: i for i, text in enumerate(self._tokens)}
        self._special = sorted(special, key=len, reverse=True)

    def tokenize(self, text: str) -> list[int]:
        """Returns the ids of a text: special ones, characters, bytes of others."""
        ids: list[int] = []
        while text:
            for token in self._special:
                if text.startswith(token):
                    ids.append(self._ids[token])
                    text = text[len(token) :]
                    break
            else:
                shown = "▁" if text[0] == " " else text[0]
                if shown in self._ids:
                    ids.append(self._ids[shown])
                else:
                    ids += [self._ids[f"<0x{byte:02X}>"] for byte in text[0].encode()]
                text = text[1:]
        return ids

    def write_script(self, text: str, length: int) -> str:
        """Returns what has to be in the prompt for a text, as a number of tokens.

        Raises:
            ValueError: it is too long.
        """
        ids = self.tokenize(text)
        if len(ids) >= length:
            raise ValueError(f"a text of {len(ids)} tokens; at most {length - 1}")
        ids += [self._ids[END]] * (length - len(ids))
        return "".join(chr(_AREA + id) for id in ids)

    def cut_after_script(self, prompt: str) -> str:
        """Returns what follows a script in a prompt."""
        return prompt.rpartition(chr(_AREA + self._ids[END]))[2]

    def write(self, path: Path, context: int, template: str) -> None:
        """Writes the file."""
        count = len(self._tokens)
        hidden = [chr(_AREA + id) for id in range(count)]
        tokens = [*self._tokens, *hidden, "<unk>"]
        kinds = [*self._kinds, *[gguf.TokenType.NORMAL] * count, gguf.TokenType.UNKNOWN]
        random = np.random.default_rng(0)
        signs = np.repeat([1.0, -1.0], _HEAD // 2)
        codes = np.array([random.permutation(signs) for _ in range(count)])
        with closing(gguf.GGUFWriter(path, arch="gpt2")) as writer:
            writer.add_block_count(1)
            writer.add_context_length(context)
            writer.add_embedding_length(_WIDTH)
            writer.add_feed_forward_length(_FEED)
            writer.add_head_count(_WIDTH // _HEAD)
            writer.add_layer_norm_eps(1e-5)
            writer.add_tokenizer_model("llama")
            writer.add_token_list(tokens)
            writer.add_token_scores([0.0] * len(tokens))
            writer.add_token_types(kinds)
            writer.add_unk_token_id(len(tokens) - 1)
            writer.add_eos_token_id(0)
            writer.add_add_bos_token(False)
            writer.add_add_space_prefix(False)
            writer.add_chat_template(template)
            for name, values in self._make_tensors(codes, context).items():
                writer.add_tensor(name, values.astype(np.float32))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()

    def _make_tensors(self, codes: np.ndarray, context: int) -> dict[str, np.ndarray]:
        count = len(codes)
        token, place, copied = slice(_HEAD), slice(_HEAD, 2 * _HEAD), slice(3 * _HEAD, _WIDTH)
        embedding = np.zeros((2 * count + 1, _WIDTH))
        embedding[:, token] = np.concatenate([codes, codes, codes[:1]])
        output = np.zeros((2 * count + 1, _WIDTH))
        output[:count, copied] = codes
        frequencies = np.random.default_rng(1).uniform(0, np.pi, _FREQUENCIES)
        angles = np.arange(context)[:, None] * frequencies
        turns = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        # Codes have the mean zero and one length: the norm only scales them.
        positions = np.concatenate([np.zeros_like(turns), turns, -turns, np.zeros_like(turns)], 1)
        back = (self.distance - 1) * frequencies
        cosine, sine = np.diag(np.cos(back)), np.diag(np.sin(back))
        mixed = np.zeros((3 * _WIDTH, _WIDTH))
        mixed[:_HEAD, place] = _SHARP * np.block([[cosine, sine], [-sine, cosine]])
        mixed[_WIDTH : _WIDTH + _HEAD, place] = np.eye(_HEAD)
        mixed[2 * _WIDTH : 2 * _WIDTH + _HEAD, token] = np.eye(_HEAD)
        joined = np.zeros((_WIDTH, _WIDTH))
        joined[copied, :_HEAD] = np.eye(_HEAD)
        tensors = {
            "token_embd.weight": embedding,
            "position_embd.weight": positions,
            "output.weight": output,
            "output_norm.weight": np.ones(_WIDTH),
            "output_norm.bias": np.zeros(_WIDTH),
            "blk.0.attn_qkv.weight": mixed,
            "blk.0.attn_output.weight": joined,
            "blk.0.ffn_up.weight": np.zeros((_FEED, _WIDTH)),
            "blk.0.ffn_down.weight": np.zeros((_WIDTH, _FEED)),
        }
        for name in ("attn_qkv", "attn_output", "ffn_up", "ffn_down"):
            tensors[f"blk.0.{name}.bias"] = np.zeros(len(tensors[f"blk.0.{name}.weight"]))
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.0.{name}.weight"] = np.ones(_WIDTH)
            tensors[f"blk.0.{name}.bias"] = np.zeros(_WIDTH)
        return tensors
