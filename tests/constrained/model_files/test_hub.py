"""Models by name: what is chosen, downloaded, found again, and said when that fails."""

import time
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
from gguf.scripts.gguf_new_metadata import copy_with_new_metadata
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.llama_files import read_header
from constrained.engine.llamacpp import load
from constrained.errors import ModelError, RequestError
from constrained.model_files.hub import PREFERRED, choose, fetch
from constrained.model_files.hub_cache import list_cached, remove_cached
from examples.random_model import load_small, write_model
from tests.hub_server import Hub, serve

REPO = "some-one/Model.1-GGUF"
PARTS = [f"F16/Model.1-F16-0000{i}-of-00002.gguf" for i in (1, 2)]
FILES = ["Model.1-Q4_K_M.gguf", "Model.1-Q8_0.gguf", *PARTS]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Models that llama.cpp loads, one of them in two parts, and files that are none."""
    folder = tmp_path_factory.mktemp("models")
    files = {}
    for seed, name in enumerate(FILES[:2]):
        path = write_model(folder / name, load_small(), None, n_layer=1, seed=seed)
        files[name] = path.read_bytes()
    reader = gguf.GGUFReader(folder / FILES[0])
    writer = gguf.GGUFWriter(folder / "split.gguf", "qwen3", split_max_tensors=8)
    copy_with_new_metadata(reader, writer, {}, [])
    writer.close()
    parts = sorted(folder.glob("split-*.gguf"))
    files |= {name: path.read_bytes() for name, path in zip(PARTS, parts, strict=True)}
    return files | {"README.md": b"hi", "mmproj-Q4_K_M.gguf": b"GGUF", "imatrix.gguf": b"GGUF"}


@pytest.fixture
def hub(data: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with serve(Hub({REPO: dict(data)})) as hub:
        yield hub


@pytest.mark.parametrize(
    ("wanted", "file"),
    [
        ("", FILES[0]),
        (":Q4_K_M", FILES[0]),
        (":q8_0", FILES[1]),
        (":f16", PARTS[0]),
        (f":{FILES[1]}", FILES[1]),
        (f":{PARTS[0]}", PARTS[0]),
        (":Model.1-F16-00002-of-00002.gguf", PARTS[0]),
    ],
)
def test_what_is_downloaded_is_found_again(
    hub: Hub, data: dict[str, bytes], wanted: str, file: str
):
    told: list[tuple[int, int]] = []
    path = fetch(REPO + wanted, endpoint=hub.url, progress=lambda *sizes: told.append(sizes))
    assert path.read_bytes() == data[file]
    assert path.parts[-file.count("/") - 1 :] == Path(file).parts
    size = sum(len(data[name]) for name in (PARTS if file == PARTS[0] else [file]))
    assert (told[-1], told) == ((size, size), sorted(told))
    downloads = [r for r in hub.requests if "/cdn/" in r]
    assert len(downloads) == (2 if file == PARTS[0] else 1)
    assert fetch(f"hf:{REPO}{wanted}", endpoint=hub.url) == path
    assert [r for r in hub.requests if "/cdn/" in r] == downloads
    hub.requests.clear()
    assert fetch(REPO + wanted, endpoint=hub.url, offline=True) == path
    assert hub.requests == []


def test_what_is_on_this_machine_is_listed_and_removed(hub: Hub, data: dict[str, bytes]):
    assert list_cached() == []
    for wanted in ("Q8_0", "F16", "Q4_K_M"):
        fetch(f"{REPO}:{wanted}", endpoint=hub.url)
    listed = {model.name: model for model in list_cached()}
    assert list(listed) == [f"{REPO}:{variant}" for variant in ("F16", "Q4_K_M", "Q8_0")]
    assert listed[f"{REPO}:F16"].files == tuple(PARTS)
    assert listed[f"{REPO}:F16"].bytes == sum(len(data[part]) for part in PARTS)
    for name in listed:  # each is a name that finds what it names
        fetch(name, offline=True)
    with pytest.raises(RequestError, match="there are 3 models"):
        remove_cached(REPO)
    with pytest.raises(ModelError, match="there is no Q2_K"):
        remove_cached(f"{REPO}:Q2_K")
    assert remove_cached(f"{REPO}:f16") == listed[f"{REPO}:F16"]
    with pytest.raises(ModelError, match="there is no F16"):
        fetch(f"{REPO}:F16", offline=True)
    assert fetch(f"{REPO}:Q8_0", offline=True).read_bytes() == data[FILES[1]]
    remove_cached(f"{REPO}:{FILES[0]}")
    assert remove_cached(REPO).name == f"{REPO}:Q8_0"  # the only one that is left
    assert list_cached() == []
    assert list(Path(constants.HF_HUB_CACHE).glob("models--*")) == []


def test_all_versions_of_a_model_are_removed(hub: Hub):
    fetch(f"{REPO}:Q8_0", endpoint=hub.url)
    fetch(REPO, endpoint=hub.url)
    kept = hub.repos[REPO][FILES[1]]
    hub.repos[REPO][FILES[0]] += b"new"
    fetch(REPO, endpoint=hub.url)
    fetch(f"{REPO}:Q8_0", endpoint=hub.url)  # the same blob in two versions
    models = list_cached()
    assert [model.bytes for model in models] == [2 * len(hub.repos[REPO][FILES[0]]) - 3, len(kept)]
    remove_cached(models[0].name)
    assert list_cached() == models[1:]
    assert fetch(models[1].name, offline=True).read_bytes() == kept


def test_what_is_not_on_this_machine_is_not_removed(hub: Hub):
    with pytest.raises(ModelError, match="a/b is not on this machine"):
        remove_cached("a/b")
    with pytest.raises(RequestError, match="does not name a model"):
        remove_cached("etc")


def test_what_is_downloaded_can_be_loaded(hub: Hub):
    whole = fetch(REPO, endpoint=hub.url)
    with load(fetch(f"{REPO}:F16", endpoint=hub.url), context_length=64) as engine:
        assert engine.vocabulary.tokens == read_header(whole).vocabulary.tokens


def test_without_a_network(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    paths = {q: fetch(f"{REPO}:{q}", endpoint=hub.url) for q in ("Q8_0", "Q4_K_M")}
    hub.status = 503
    assert fetch(REPO, endpoint=hub.url) == paths["Q4_K_M"]
    nobody = "http://127.0.0.1:9"
    assert fetch(REPO, endpoint=nobody) == paths["Q4_K_M"]
    assert fetch(f"{REPO}:q8_0", endpoint=nobody) == paths["Q8_0"]
    with pytest.raises(
        ModelError, match=r"no F16 in the cache of .*does not answer: .*refused"
    ) as e:
        fetch(f"{REPO}:F16", endpoint=nobody)
    assert e.value.hint == "Available: Q4_K_M, Q8_0"
    with pytest.raises(ModelError, match=r"a/b is not in the cache .* does not answer: .*refused"):
        fetch("a/b", endpoint=nobody)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(REPO) == paths["Q4_K_M"]
    with pytest.raises(ModelError, match="offline mode forbids") as e:
        fetch("a/b")
    assert "with -m" in str(e.value)


def test_a_download_that_breaks(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    hub.cuts = 1000
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: None)  # huggingface_hub tries again
        with pytest.raises(ModelError, match=r"Q4_K_M\.gguf from .* broke off: .*peer closed") as e:
            fetch(REPO, endpoint=hub.url)
    assert e.value.hint == "Check the network, then run it again"
    with pytest.raises(ModelError, match="not in the cache"):
        fetch(REPO, offline=True)
    hub.cuts = 0
    assert fetch(REPO, endpoint=hub.url).read_bytes() == hub.repos[REPO][FILES[0]]


def test_a_download_is_taken_up_where_it_broke_off(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # what is less is thrown away
    hub.cuts = 1
    told: list[tuple[int, int]] = []
    path = fetch(REPO, endpoint=hub.url, progress=lambda *sizes: told.append(sizes))
    data = hub.repos[REPO][FILES[0]]
    assert path.read_bytes() == data
    assert hub.resumed == [len(data) // 2 // 1000 * 1000]
    assert (told[-1], told) == ((len(data), len(data)), sorted(told))


def test_a_damaged_download_is_not_kept(hub: Hub):
    hub.damage = 1
    with pytest.raises(ModelError, match=r"Q4_K_M\.gguf from .* is damaged: its SHA-256 is") as e:
        fetch(REPO, endpoint=hub.url)
    assert e.value.hint == "Run it again"
    with pytest.raises(ModelError, match="not in the cache"):
        fetch(REPO, offline=True)
    assert fetch(REPO, endpoint=hub.url).read_bytes() == hub.repos[REPO][FILES[0]]


def test_a_new_version_that_does_not_come(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    path = fetch(REPO, endpoint=hub.url)
    hub.repos[REPO][FILES[0]] += b"new"
    hub.cuts = 1000
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(ModelError, match="broke off"):
        fetch(REPO, endpoint=hub.url)
    assert fetch(REPO, offline=True) == path
    hub.cuts = 0
    newer = fetch(REPO, endpoint=hub.url)
    assert newer.read_bytes().endswith(b"new")
    assert fetch(REPO, offline=True) == newer


def test_a_split_model_that_is_not_whole(hub: Hub):
    del hub.repos[REPO][PARTS[1]]
    with pytest.raises(ModelError, match="no f16 in the repository"):
        fetch(f"{REPO}:f16", endpoint=hub.url)


def test_who_may_read(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    hub.repos |= {"a/gated": hub.repos[REPO], "a/private": hub.repos[REPO]}
    hub.gated, hub.private = {"a/gated"}, {"a/private"}
    with pytest.raises(ModelError, match="a/gated is gated") as e:
        fetch("a/gated", endpoint=hub.url)
    assert e.value.hint
    assert f"Accept its terms at {hub.url}/a/gated" in e.value.hint
    for name in ("a/private", "a/none"):
        with pytest.raises(ModelError, match=f"no repository {name} .*or it is private") as e:
            fetch(name, endpoint=hub.url, token="wrong")
        assert "HF_TOKEN" in str(e.value)
    assert fetch("a/gated", endpoint=hub.url, token="secret").is_file()
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert fetch("a/private", endpoint=hub.url).is_file()
    hub.status = 403
    with pytest.raises(ModelError, match=r"refuses .* with status 403"):
        fetch(REPO, endpoint=hub.url)


def test_a_quantisation_that_is_not_there(hub: Hub):
    with pytest.raises(ModelError, match="there is no Q3_K in the repository") as e:
        fetch(f"{REPO}:Q3_K", endpoint=hub.url)
    assert e.value.hint == "Available: F16, Q4_K_M, Q8_0"
    with pytest.raises(ModelError, match=r"there is no mmproj-Q4_K_M\.gguf in"):
        fetch(f"{REPO}:mmproj-Q4_K_M.gguf", endpoint=hub.url)
    hub.repos["a/b"] = {"README.md": b"", "model.safetensors": b""}
    with pytest.raises(ModelError, match="no GGUF model in the repository a/b"):
        fetch("a/b", endpoint=hub.url)


@pytest.mark.parametrize("spec", ["", "model", "a/b/c", "a/b:", "https://huggingface.co/a/b", "/b"])
def test_names_that_are_none(spec: str):
    with pytest.raises(RequestError, match="does not name a model of the Hub"):
        fetch(spec)


def test_a_folder_that_cannot_be_written(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot be downloaded: .*(Not a directory|File exists)"):
        fetch(REPO, endpoint=hub.url)


def test_order_of_preference():
    others = ["m-BF16.gguf", "m-Q2_K.gguf"]
    left = [f"m-{quant}.gguf" for quant in PREFERRED] + others
    for quant in PREFERRED:
        assert choose(reversed(left), "", "x") == (f"m-{quant}.gguf",)
        left.remove(f"m-{quant}.gguf")
    assert choose(left, "", "x") == ("m-BF16.gguf",)
    assert choose(["mtp-q4_0.gguf", "b.gguf", "a.gguf"], "", "x") == ("a.gguf",)


def test_files_of_the_same_name():
    files = ["b/m.gguf", "m.gguf", "a/m.gguf"]
    for wanted, file in (("m.gguf", "m.gguf"), ("b/m.gguf", "b/m.gguf")):
        assert choose(files, wanted, "x") == (file,)
    assert choose(["b/m.gguf", "a/m.gguf"], "m.gguf", "x") == ("a/m.gguf",)
    with pytest.raises(ModelError):
        choose(files, "/m.gguf", "x")


@pytest.mark.parametrize(
    ("wanted", "file"),
    [
        ("q4_k", "m-Q4_K.gguf"),
        ("Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("UD-Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("Q5_0", "Q5_0/m.gguf"),
        ("iq2_m", "m.IQ2_M.gguf"),
    ],
)
def test_spellings_of_quantisations(wanted: str, file: str):
    files = ["m-Q4_K.gguf", "m-Q4_K_M.gguf", "m-UD-Q4_K_XL.gguf", "Q5_0/m.gguf", "m.IQ2_M.gguf"]
    assert choose(files, wanted, "x") == (file,)
    for none in ("Q2_M", "K_X", "4_K"):
        with pytest.raises(ModelError):
            choose(files, none, "x")


@given(st.lists(st.sampled_from(FILES + [f"m-{q}.gguf" for q in PREFERRED] + ["x.gguf"])))
def test_what_is_cached_is_chosen_as_online(files: list[str]):
    """The best of all is the best of every part that has it: so a cache chooses the same."""
    try:
        chosen = choose(files, "", "x")
    except ModelError:
        return
    assert choose([*chosen, *files[::2]], "", "x") == chosen
