import re
from pathlib import Path

import llama_cpp
import pytest

from constrained.engine.llama_vocabulary import read_vocabulary
from constrained.engine.vocabulary.exact_spelling import Encoder, Speller
from constrained.engine.vocabulary.vocabulary import Vocabulary, build_tokenizer, byte_vocabulary
from constrained.errors import GrammarError, ModelError
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.constrained.engine.vocabulary.vocabulary_file import vocabulary_of
from tests.real_templates import require_models_directory

REAL = ["qwen2", "llama-bpe", "llama-spm", "gemma-4", "phi-3", "deepseek-coder", "gpt-neox"]
TEXTS = [
    "",
    " ",
    "Hello world",
    " leading and trailing  ",
    "tabs\tand\r\n\r\n\n lines\n",
    '{"name": "f", "arguments": {"a": [1, 2.5e-3, "</think>"]}}',
    "naïve Zürich 日本語 🙂👍🏽 e\u0301 \u200d \u00a0",
    "<s>a</s> <unk> <|im_start|>user <|im_end|><|end|><|eot_id|><eos></tool_call>",
    "[PAD151700] [PAD32020] [PAD50300][PAD32030]",
    "\x00\x01\x7f ▁ ▁x",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    tokens = with_markers(load_small(), MARKERS)
    return vocabulary_of(write_model(tmp_path_factory.mktemp("model") / "m.gguf", tokens, None))


@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest) -> Vocabulary:
    return vocabulary_of(require_models_directory() / f"ggml-vocab-{request.param}.gguf")


def assert_exact(vocabulary: Vocabulary, text: str, tokens: list[int]) -> None:
    assert vocabulary.text(tokens) == text.encode()
    assert not set(tokens) & (vocabulary.control | set(vocabulary.end))
    assert all(vocabulary.tokens[token] for token in tokens)


@pytest.mark.parametrize("text", TEXTS)
def test_encode_is_exact_and_has_no_special_token(small: Vocabulary, text: str):
    tokens = small.encode(text)
    assert_exact(small, text, tokens)
    assert not set(tokens) & small.names.keys()


def test_encode_is_exact_for_real_vocabularies(real: Vocabulary):
    names = list(real.names.values())
    for text in [*TEXTS, *names[:200], "a" + "b ".join(names[:50])]:
        assert_exact(real, text, real.encode(text))
        assert_exact(real, text, real.encode(text, ()))


def test_encode_invents_no_space(real: Vocabulary):
    assert real.text(real.encode("Hello")) == b"Hello"
    assert len(real.encode("Hello world")) < 5  # and it is not spelled byte by byte


def test_only_the_given_markers_are_spelled_out(small: Vocabulary):
    think = small.marker("<think>")
    text = "a<think>b</think>"
    assert think in small.encode(text, ())
    assert small.marker("</think>") in small.encode(text, ["<think>"])
    assert think not in small.encode(text, ["<think>"])
    assert small.encode(text, MARKERS) == small.encode(text)


def test_encode_special_recognises_names(small: Vocabulary):
    tokens = small.encode_special("<|im_start|>a<tool_call><|im_end|>")
    assert [small.names.get(token) for token in tokens] == [
        "<|im_start|>",
        None,
        "<tool_call>",
        "<|im_end|>",
    ]


def test_marker(small: Vocabulary):
    token = small.marker("<tool_call>")
    assert token is not None
    assert small.names[token] == "<tool_call>"
    assert token not in small.control
    assert small.marker("<|im_start|>") in small.control
    assert small.marker("<tool_call") is None
    assert small.marker("a") is None


def test_end_tokens(small: Vocabulary):
    assert small.names[small.end[0]] == "<|im_end|>"
    assert {small.names[token] for token in small.end} == {"<|im_end|>", "<|endoftext|>"}
    assert small.bos is None


def test_a_text_token_that_ends_generation():
    # llama.cpp takes `</s>`, which merges of Qwen's vocabulary lead to, for an end of generation.
    qwen = vocabulary_of(require_models_directory() / "ggml-vocab-qwen2.gguf")
    assert qwen.marker("</s>") in qwen.end
    assert [qwen.tokens[token] for token in qwen.encode("x</s>")] == [b"x", b"</", b"s", b">"]


def test_padding_is_blank(real: Vocabulary):
    assert not any(re.fullmatch(rb"\[PAD\d+\]", data) for data in real.tokens)
    assert not any(name.startswith("[PAD") for name in real.names.values())


def test_a_vocabulary_that_loses_white_space_is_refused():
    with pytest.raises(ModelError, match="cannot write text exactly"):
        vocabulary_of(require_models_directory() / "ggml-vocab-bert-bge.gguf")


def test_encode_after_the_model_is_gone(tmp_path: Path):
    params = llama_cpp.llama_model_default_params()
    path = write_model(tmp_path / "m.gguf", load_small(), None, n_layer=1)
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model
    is_open = [True]
    vocabulary = read_vocabulary(model, lambda: is_open[0])
    tokenizer = build_tokenizer(vocabulary, ())
    llama_cpp.llama_model_free(model)
    is_open[0] = False
    with pytest.raises(ModelError, match="closed"):
        vocabulary.encode("a")
    assert tokenizer.tokenize_str("a") == []


@pytest.mark.parametrize(
    ("function", "result", "message"),
    [
        ("llama_vocab_is_eog", False, "no end-of-generation token"),
        ("llama_token_to_piece", -5000, "token 0 of the model has 5000 bytes"),
        ("llama_tokenize", -1, "cannot tokenise"),
    ],
)
def test_vocabularies_that_cannot_be_used(
    function: str, result: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write_model(tmp_path / "m.gguf", load_small(), None, n_layer=1)
    monkeypatch.setattr(llama_cpp, function, lambda *arguments: result)
    with pytest.raises(ModelError, match=message):
        vocabulary_of(path)


def test_lone_surrogates_are_refused(small: Vocabulary):
    with pytest.raises(UnicodeEncodeError):
        small.encode("\ud800")


def test_byte_vocabulary():
    vocabulary = byte_vocabulary(["<a>", "<a><b>", "</s>"])
    assert len(vocabulary.tokens) == 259
    assert vocabulary.encode("é<a>") == list("é<a>".encode())
    assert vocabulary.encode_special("x<a><b></s>") == [ord("x"), 258, 256]
    assert vocabulary.marker("<a>") == 257
    assert vocabulary.text([104, 105, 257, 256]) == b"hi<a></s>"
    assert vocabulary.end == (256,)


def test_speller_takes_the_longest_and_names_the_byte():
    spell = Speller([b"a", b"ab", b"b", b"abc", b""], {3})
    assert spell(b"abcab"[:2]) == [1]
    assert spell(b"bab") == [2, 1]
    with pytest.raises(ModelError, match="0x63"):
        spell(b"abc")


def test_encoder_spells_what_the_tokenizer_changes():
    tokens = [b"a", b"A", b"<x>", b"<", b"x", b">"]
    encode = Encoder(
        lambda data: [tokens.index(b"a")] * len(data),
        tokens,
        {2: "<x>"},
        never=frozenset(),
    )
    assert encode("aA") == [0, 1]
    assert encode("<x>") == [3, 4, 5]


def test_encoder_spells_what_the_tokenizer_does_not_know():
    tokens = [b"a", b"b", b"<unk>"]
    encode = Encoder(
        lambda data: [0 if b == 97 else 2 for b in data], tokens, {}, never=frozenset({2})
    )
    assert encode("aba") == [0, 1, 0]
    with pytest.raises(ModelError, match="no token for the byte 0x63"):
        encode("ac")


def test_tokenizer_of_a_grammar(small: Vocabulary):
    tokenizer = build_tokenizer(small, ["<tool_call>", "not one token"])
    special = {t for t in range(len(small.tokens)) if tokenizer.is_special_token(t)}
    # llguidance takes the byte 0xFF, which no text contains, for special too.
    own = {t for t in special if small.tokens[t] != b"\xff"}
    assert own == small.control | set(small.end) | {small.marker("<tool_call>")}
    assert tokenizer.eos_tokens == list(small.end)
    assert tokenizer.vocab_size == len(small.tokens)
    assert (
        tokenizer.decode_bytes(tokenizer.tokenize_str("a <tool_call>é"))
        == "a <tool_call>é".encode()
    )
    assert tokenizer.tokenize_bytes(b"ab\xe2\x82") != []  # not UTF-8


def test_a_marker_is_no_end(small: Vocabulary):
    tokenizer = build_tokenizer(small, ["<|im_end|>"])
    assert tokenizer.eos_tokens == [small.marker("<|endoftext|>")]
    assert tokenizer.is_special_token(small.end[0])
    with pytest.raises(GrammarError, match="marker"):
        build_tokenizer(small, ["<|im_end|>", "<|endoftext|>"])
