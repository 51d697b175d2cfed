"""Compiles grammars of clients on trial; the main module of the process in which that happens."""

import json
import threading
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import llguidance
from llguidance.gbnf_to_lark import gbnf_to_lark

from constrained.limits.answering import answer_questions
from constrained.limits.process_limits import MIB
from constrained.mask.limits import STACK, USER_LIMITS

MEMORY = 128 * MIB
HEADER = "%llguidance {}\n"


class _Bytes:
    """The attributes that llguidance reads of a tokenizer: see `llguidance.TokenizerWrapper`.

    What a grammar costs to compile does not depend on the texts of tokens, only on those that it
    names. So all others are left out, except for the 256 bytes.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, size: int, special: Mapping[str, str], ends: list[int]):
        free = (token for token in range(size) if str(token) not in special)
        self._tokens = [*islice(free, 256)]  # by byte
        self.tokens = [b""] * size
        for byte, token in enumerate(self._tokens):
            self.tokens[token] = bytes([byte])
        for token, text in special.items():
            self.tokens[int(token)] = text.encode()
        self.special_token_ids = sorted(map(int, special))
        self.eos_token_id = ends[0]

    def __call__(self, text: str | bytes) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return [self._tokens[byte] for byte in data]


@lru_cache(1)
def _build_tokenizer(vocabulary: str) -> llguidance.LLTokenizer:
    given = json.loads(vocabulary)
    wrapper: Any = _Bytes(given["size"], given["special"], given["ends"])
    return llguidance.LLTokenizer(wrapper, eos_token=given["ends"])


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Answers one question.

    Args:
        question: `{gbnf}` to convert a grammar, or `{vocabulary, lark}` to compile one.
            `vocabulary` is the JSON of `{size, special, ends}`: the number of tokens, the texts of
            special ones by id, and the ids of those that end a turn.

    Returns:
        `{lark}`, the converted grammar; or `{error}`, what llguidance says, "" if it is nothing.
    """
    if "gbnf" in question:
        try:
            return {"lark": gbnf_to_lark(question["gbnf"]).replace(HEADER, "")}
        except RecursionError:
            return {"error": "it is nested too deeply"}
        except Exception as e:  # it raises a plain Exception if a rule is missing
            return {"error": str(e)}
    tokenizer = _build_tokenizer(question["vocabulary"])
    matcher = llguidance.LLMatcher(tokenizer, question["lark"], log_level=0, limits=USER_LIMITS)
    matcher.compute_bitmask()
    return {"error": matcher.get_error()}


def main() -> None:
    threading.stack_size(STACK)
    thread = threading.Thread(target=answer_questions, args=(answer, MEMORY))
    thread.start()
    thread.join()
