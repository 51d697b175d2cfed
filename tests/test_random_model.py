import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from gguf import GGMLQuantizationType, TokenType

from examples.random_model import (
    MARKERS,
    SourceUnavailable,
    Tokens,
    load_small,
    models_directory,
    read_vocabulary,
    template,
    truncate,
    vocabulary_file,
    with_markers,
    write_model,
)
from examples.random_model.package_index import (
    find_sdist,
    html_links,
    json_links,
    without_password,
)
from examples.random_model.train_vocabulary import N_MERGES, train
from examples.random_model.vocabulary import BYTE_LETTERS
from tests.llama_c_api import Model, loaded
from tests.real_templates import require_models_directory

SEPARATOR = "\n__ggml_vocab_test__\n"

TEXTS = [
    "Hello <tool_call>\n{}",
    "naïve 😀👍🏽 日本語 \u200d \r\n\t  the end  ",
    '{"name": "get_weather", "arguments": {"city": "Zürich"}}',
    "<|im_start|>user\nHi<|im_end|>\n",
]


@pytest.fixture(scope="module")
def marked() -> Tokens:
    return with_markers(load_small(), MARKERS)


@pytest.fixture(scope="module")
def model(marked: Tokens, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write_model(tmp_path_factory.mktemp("model") / "m.gguf", marked, "{{ messages }}")
    with loaded(path) as model:
        yield model


def test_markers_are_one_token(model: Model, marked: Tokens):
    marker = marked.id_of("<tool_call>")
    for special in (True, False):
        ids = model.tokenize("Hello <tool_call>", special)
        assert ids[-1] == marker
        assert ids.count(marker) == 1
        assert model.piece(marker, special) == b"<tool_call>"


def test_without_markers_they_are_text(tmp_path: Path):
    with loaded(write_model(tmp_path / "m.gguf", load_small(), None), True) as model:
        ids = model.tokenize("<tool_call>")
        assert len(ids) >= 3
        assert model.text(ids) == "<tool_call>"
        assert llama_cpp.llama_model_chat_template(model.model, None) is None


@pytest.mark.parametrize("text", TEXTS)
def test_detokenizes_to_the_same_bytes(model: Model, text: str):
    assert model.text(model.tokenize(text)) == text


def test_roles_of_special_tokens(model: Model, marked: Tokens):
    vocab = model.vocab
    assert llama_cpp.llama_vocab_eos(vocab) == marked.eos == marked.id_of("<|im_end|>")
    assert not llama_cpp.llama_vocab_get_add_bos(vocab)
    assert llama_cpp.llama_model_chat_template(model.model, None) == b"{{ messages }}"
    for text in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        assert llama_cpp.llama_vocab_is_control(vocab, marked.id_of(text))
        assert model.tokenize(text) == [marked.id_of(text)]
        assert len(model.tokenize(text, special=False)) > 1
        assert model.piece(marked.id_of(text), special=False) == b""
    assert not llama_cpp.llama_vocab_is_control(vocab, marked.id_of("<tool_call>"))


def test_logits_are_lively(model: Model):
    texts = ("Hello <tool_call>", "the weather in Paris", "{")
    rows = [model.logits(model.tokenize(text)) for text in texts]
    assert all(np.isfinite(row).all() and 2 < row.std() < 4 for row in rows)
    assert len({int(row.argmax()) for row in rows}) == 3


def test_answers_do_not_just_repeat_a_token(model: Model):
    ids = model.tokenize("Hello")
    for _ in range(30):
        ids.append(int(model.logits(ids).argmax()))
    assert len(set(ids)) > 15


def test_seed_decides_the_bytes(tmp_path: Path, marked: Tokens):
    def written(name: str, seed: int) -> bytes:
        return write_model(tmp_path / name, marked, None, seed=seed, n_layer=1).read_bytes()

    assert written("a", 1) == written("b", 1) != written("c", 2)


@pytest.mark.parametrize("dtype", ["F32", "BF16", "Q8_0"])
def test_other_types(tmp_path: Path, marked: Tokens, dtype: str):
    path = tmp_path / "m.gguf"
    kind = GGMLQuantizationType[dtype]
    write_model(path, marked, None, dtype=kind, n_embd=96, n_head=4, n_head_kv=2, head_dim=32)
    with loaded(path) as model:
        assert np.isfinite(model.logits([1, 2, 3])).all()


def test_read_vocabulary_reads_what_was_written(tmp_path: Path, marked: Tokens):
    path = write_model(tmp_path / "m.gguf", marked, None)
    assert read_vocabulary(path) == marked
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"m\.gguf"):
        read_vocabulary(path)


def test_markers_take_unused_ids_first():
    small = load_small()
    spare = [*small.tokens, "[PAD959]"]
    tokens = Tokens(spare, [*small.types, int(TokenType.UNUSED)], small.merges, "qwen2", small.eos)
    marked = with_markers(tokens, ["<a>", "<b>", "<a>", "<|im_end|>"])
    assert marked.tokens[959:] == ["<a>", "<b>"]
    assert marked.types[959:] == [TokenType.USER_DEFINED] * 2
    assert marked.types[marked.id_of("<|im_end|>")] == TokenType.USER_DEFINED
    with pytest.raises(ValueError, match="empty"):
        with_markers(tokens, [""])


def test_truncate_keeps_a_whole_tokenizer(tmp_path: Path, marked: Tokens):
    short = truncate(marked, 300)
    assert len(short.tokens) == 300 + 3 + len(MARKERS)
    assert len(short.merges) == 44
    assert short.tokens[short.eos] == "<|im_end|>"
    with loaded(write_model(tmp_path / "m.gguf", short, None), vocab_only=True) as model:
        for text in TEXTS:
            assert model.text(model.tokenize(text)) == text
    with pytest.raises(ValueError, match="256 bytes"):
        truncate(marked, 255)


def test_the_committed_vocabulary_is_the_trained_one():
    merges = train(N_MERGES)
    small = load_small()
    assert small.merges == [f"{left} {right}" for left, right in merges]
    assert small.tokens[:256] == list(BYTE_LETTERS.values())
    assert small.tokens[256:-3] == [left + right for left, right in merges]


def test_command_line(tmp_path: Path):
    jinja = tmp_path / "t.jinja"
    jinja.write_text("{{ 'é' }}", encoding="utf-8")
    out = tmp_path / "m.gguf"
    command = [sys.executable, "-m", "examples.random_model", str(out), "--markers", "text"]
    subprocess.run([*command, "--template", str(jinja)], check=True)
    assert read_vocabulary(out) == load_small()


def test_full_vocabulary_tokenizes_as_the_official_one(tmp_path: Path):
    models = require_models_directory()
    path = vocabulary_file("qwen2")
    assert path.parent == models
    tokens = with_markers(read_vocabulary(path), MARKERS)
    assert tokens.tokens[tokens.eos] == "<|im_end|>"
    questions = path.with_name(f"{path.name}.inp").read_bytes().decode()
    answers = path.with_name(f"{path.name}.out").read_text().splitlines()
    with loaded(write_model(tmp_path / "m.gguf", tokens, None), vocab_only=True) as model:
        for text, line in zip(questions.split(SEPARATOR)[:-1], answers, strict=True):
            assert model.tokenize(text) == [int(word) for word in line.split()]
        assert model.tokenize("<think>") == [tokens.id_of("<think>")]
    with loaded(write_model(tmp_path / "s.gguf", truncate(tokens, 5000), None)) as model:
        assert model.text(model.tokenize(TEXTS[1])) == TEXTS[1]


def make_index(root: Path, sha256: str | None = None) -> str:
    """Makes a package index with a small source distribution, and returns its URL."""
    name = f"llama_cpp_python-{version('llama-cpp-python')}"
    page = root / "simple" / "llama-cpp-python" / "index.html"
    page.parent.mkdir(parents=True)
    with tarfile.open(page.with_name(f"{name}.tar.gz"), "w:gz") as tar:
        for path in ("setup.py", "vendor/llama.cpp/models/templates/T.jinja"):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size = len(path)
            tar.addfile(member, io.BytesIO(path.encode()))
    digest = hashlib.sha256(page.with_name(f"{name}.tar.gz").read_bytes()).hexdigest()
    page.write_text(f'<a href="{name}.tar.gz#sha256={sha256 or digest}">{name}.tar.gz</a>')
    return (root / "simple").as_uri()


def test_models_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", make_index(tmp_path))
    models = models_directory()
    assert [path.name for path in models.rglob("*")] == ["templates", "T.jinja"]
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "nowhere").as_uri())
    assert models_directory() == models
    assert template("T") == template("T.jinja") == "vendor/llama.cpp/models/templates/T.jinja"
    with pytest.raises(FileNotFoundError, match=r"there are: T\.jinja"):
        template("U")


def test_nothing_is_kept_of_what_did_not_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(SourceUnavailable, match=r"nowhere/llama-cpp-python/.*PIP_INDEX_URL"):
        models_directory()
    monkeypatch.setenv("PIP_INDEX_URL", make_index(tmp_path, sha256="0" * 64))
    with pytest.raises(RuntimeError, match="sha256"):
        models_directory()
    assert [path.suffix for path in (tmp_path / "cache" / "constrained").iterdir()] == [".lock"]


def test_pages_of_an_index(tmp_path: Path):
    file = {"url": "https://x/a.tar.gz", "hashes": {"sha256": "12"}}
    assert json_links(json.dumps({"files": [file]})) == [("https://x/a.tar.gz", "12")]
    assert html_links('<p><a href="a&amp;b">a</a><a>no</a>') == [("a&b", "")]
    assert without_password("https://me:secret@x:1/simple/") == "https://x:1/simple/"
    with pytest.raises(SourceUnavailable, match=r"no source distribution of llama-cpp-python 9\.9"):
        find_sdist(make_index(tmp_path), "llama-cpp-python", "9.9")
