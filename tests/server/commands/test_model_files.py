"""--models-dir and --models-preset: which models a server offers, and with which options."""

import os
from pathlib import Path

import pytest

from constrained.cli.declared import complete
from constrained.engine.model_facts import read_facts
from constrained.errors import RequestError
from constrained.model_files import embedded
from server.commands.model_files import find_offers, read_presets
from server.models.source import ModelSource
from tests.server.commands.serve_arguments import read
from tests.server.running_server import running

PRESETS = """\
; a comment
version = 1

[*]
ctx-size = 512
threads = 1

[small]
model = {demo}
alias = tiny, small-*
ctx-size = 256
temp = 0.25

[switches]
model = {demo}
no-mmap = true
load-on-startup = on
"""


def offer(*arguments: str) -> list[ModelSource]:
    options = read(*arguments)
    complete(options)
    return [offer.make_source() for offer in find_offers(options)]


def presets(text: str) -> list[ModelSource]:
    options = read("-c", "1024")
    complete(options)
    offers = read_presets(text, options, place="presets.ini")
    return [offer.make_source() for offer in offers]


def test_the_models_of_a_folder(tmp_path: Path) -> None:
    """Those in parts are one model, and those in folders of their own count."""
    sizes = {
        "b.gguf": 3,
        "a-Q4_K_M.gguf": 5,
        "big-00001-of-00002.gguf": 10,
        "big-00002-of-00002.gguf": 11,
        "mmproj-a.gguf": 1,
        "notes.txt": 1,
        "own/c.gguf": 4,
        "own/deeper/d.gguf": 4,
    }
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"x" * size)
    found = {source.name: source.file_bytes for source in offer("--models-dir", str(tmp_path))}
    assert found == {"a-Q4_K_M": 5, "b": 3, "big": 21, "c": 4}


def test_a_folder_without_models(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--models-dir: there is no folder"):
        offer("--models-dir", str(tmp_path / "nowhere"))
    with pytest.raises(RequestError, match="--models-dir: there is no GGUF file in"):
        offer("--models-dir", str(tmp_path))


def test_the_models_of_presets(tmp_path: Path) -> None:
    (tmp_path / "presets.ini").write_text(PRESETS.format(demo=embedded.PATH))
    small, switches = offer("--models-preset", str(tmp_path / "presets.ini"))
    assert (small.name, small.aliases, small.preloaded) == ("small", ("tiny", "small-*"), False)
    assert small.file_bytes == os.path.getsize(embedded.PATH)
    assert (switches.name, switches.aliases, switches.preloaded) == ("switches", (), True)
    with small.load() as model:
        assert model.engine.context_length == 256
        assert model.sampling.temperature == 0.25
    with switches.load() as model:
        assert model.engine.context_length == 512


def test_a_preset_goes_before_a_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("small", "other"):
        (tmp_path / "models" / f"{name}.gguf").symlink_to(embedded.PATH)
    (tmp_path / "presets.ini").write_text(f"[small]\nmodel = {embedded.PATH}\nalias = mine\n")
    arguments = ("--models-dir", str(tmp_path / "models"))
    found = offer(*arguments, "--models-preset", str(tmp_path / "presets.ini"))
    assert [(source.name, source.aliases) for source in found] == [
        ("small", ("mine",)),
        ("other", ()),
    ]


def test_options_of_the_command_line_hold_where_presets_say_nothing() -> None:
    [source] = presets(f"[x]\nmodel = {embedded.PATH}\n")
    with source.load() as model:
        assert model.engine.context_length == 1024


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x]\nmodel = m\nctx-sise = 5\n", r"\[x\]: there is no option 'ctx-sise' for a model"),
        ("[x]\nmodel = m\nctx-size = many\n", r"\[x\]: argument .*ctx-size.*many"),
        ("[x]\nmodel = m\nno-mmap = perhaps\n", "no-mmap is 'perhaps', not true or false"),
        ("[x]\nctx-size = 5\n", r"\[x\]: there is no model"),
        ("[x]\nbackend = vllm://h:1\n", r"\[x\]: a preset cannot name an engine"),
        ("[x]\nmodel = m\nport = 5\n", "there is no option 'port' for a model"),
        ("[x]\nmodel = m\ntop-p = 7\n", "top_p"),
        ("model = m\n", "no section headers"),
        ("[x]\nmodel = a\n[x]\nmodel = b\n", "already exists"),
        ("[x]\nmodel = a\nmodel = b\n", "already exists"),
    ],
)
def test_what_is_wrong_in_presets_is_said_at_once(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        presets(text)


def test_values_are_taken_as_they_stand() -> None:
    """No `%` is a reference, no key is changed, and a section may be called DEFAULT."""
    text = "[DEFAULT]\nmodel = %(x)s 100%.gguf\n"
    assert [source.name for source in presets(text)] == ["DEFAULT"]


def test_a_server_of_a_folder(tmp_path: Path) -> None:
    """Real models: each answers by its name, and one makes room for the other."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.gguf").symlink_to(embedded.PATH)
    options = ("--models-dir", str(tmp_path), "-c", "512", "-t", "1")
    with running(offer(*options)) as client:
        for name in ("one", "two", "one"):
            body = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
            reply = client.post("/v1/chat/completions", json={**body, "max_tokens": 5})
            assert reply.status_code == 200, reply.text
            assert reply.json()["model"] == name
        loaded = [model["name"] for model in client.get("/api/ps").json()["models"]]
        assert loaded == ["one"]


def test_what_files_say_is_told_of_models_that_are_not_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "demo.gguf").symlink_to(embedded.PATH)
    (tmp_path / "damaged.gguf").write_bytes(embedded.PATH.read_bytes()[:2000])
    facts = read_facts(embedded.PATH)
    told = {
        "size": facts.bytes,
        "general_name": "constrained demo",
        "architecture": "qwen3",
        "quantization": "Q8_0",
        "n_params": facts.parameters,
        "n_ctx_train": 2048,
        "n_embd": 256,
    }
    details = {"family": "qwen3", "families": ["qwen3"], "parameter_size": "5.25M"}
    with running(offer("--models-dir", str(tmp_path), "-c", "512", "-t", "1")) as client:
        listed = {model["id"]: model["meta"] for model in client.get("/v1/models").json()["data"]}
        assert listed == {"demo": told, "damaged": {"size": 2000}}
        tags = {model["name"]: model for model in client.get("/api/tags").json()["models"]}
        assert tags["demo"]["size"] == facts.bytes
        trained = {**details, "context_length": 2048}
        assert tags["demo"]["details"].items() >= trained.items()
        assert tags["demo"]["capabilities"] == ["completion", "tools"]
        assert tags["damaged"]["size"] == 2000
        assert "context_length" not in tags["damaged"]["details"]
        shown = client.post("/api/show", json={"model": "demo"}).json()  # loads it
        assert shown["details"].items() >= details.items()
        assert shown["model_info"]["qwen3.context_length"] == 512
        assert shown["model_info"]["general.parameter_count"] == facts.parameters
        meta = client.get("/v1/models/demo").json()["meta"]
        loaded = {name: meta.pop(name) for name in ("n_ctx", "n_vocab", "memory", "tool_format")}
        assert meta == told
        assert loaded["n_ctx"] == 512
        assert loaded["memory"] > facts.bytes
        assert loaded["tool_format"] == "hermes"
