"""The options of a cluster: those of the server, and their own."""

import pickle
from pathlib import Path

import pytest

from constrained.errors import RequestError
from server.cluster.cluster_options import read_words


def test_the_words_of_a_command_are_read() -> None:
    given = read_words("-c 1024 -np 3 -t 2 --replicas 2 --max-replicas 5 --fronts 2 --alias 'a b'")
    (model,) = given.models
    assert (model.slots, model.replicas, model.max_replicas, given.options.fronts) == (3, 2, 5, 2)
    assert (model.cpus, model.offer.name) == (2.0, "a b")
    assert read_words("--replicas 3").models[0].max_replicas == 3
    assert read_words("-hf user/repo:Q4_K_M").models[0].offer.name == "user/repo:Q4_K_M"


def test_each_model_has_replicas_of_its_own(tmp_path: Path) -> None:
    presets = tmp_path / "models.ini"
    text = "[small]\nmodel = small.gguf\nalias = tiny\nparallel = 8\nreplicas = 3\n"
    presets.write_text(text + "[large]\nmodel = large.gguf\nmax-replicas = 4\nthreads = 6\n")
    small, large = read_words(f"--models-preset {presets} -np 2").models
    assert (small.offer.name, small.offer.aliases) == ("small", ("tiny",))
    assert (small.slots, small.replicas, small.max_replicas) == (8, 3, 3)
    assert (large.slots, large.replicas, large.max_replicas, large.cpus) == (2, 2, 4, 6.0)
    three = read_words(f"--models-preset {presets} -m first.gguf").models
    assert [model.offer.name for model in three] == ["first", "small", "large"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("replicas = 0", r"models\.ini, \[small\]: --replicas is 0"),
        ("max-replicas = 1", r"models\.ini, \[small\]: --max-replicas is 1, --replicas is 2"),
        ("max-replicas = 0", r"\[small\]: --max-replicas is 0"),
        ("replica-gpus = -1", r"\[small\]: --replica-gpus is -1"),
        ("replica-cpus = nan", r"\[small\]: --replica-cpus is nan"),
        ("parallel = 0", r"\[small\]: sequences is 0"),
        ("alias = a, a", r"\[small\]: a names two models"),
    ],
)
def test_the_section_is_told(tmp_path: Path, lines: str, message: str) -> None:
    presets = tmp_path / "models.ini"
    presets.write_text(f"[small]\nmodel = small.gguf\n{lines}\n")
    with pytest.raises(RequestError, match=message):
        read_words(f"--models-preset {presets}")


def test_an_alias_of_no_model_is_refused(tmp_path: Path) -> None:
    presets = tmp_path / "models.ini"
    presets.write_text("[small]\nmodel = small.gguf\n")
    with pytest.raises(RequestError, match="--alias does not name a model"):
        read_words(f"--models-preset {presets} --alias demo")


def test_what_is_sent_to_other_processes_can_be_pickled(tmp_path: Path) -> None:
    given = read_words("--alias a")
    assert pickle.loads(pickle.dumps(given)).models[0].offer.name == "a"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--replicas 0", "--replicas is 0"),
        ("--replicas 3 --max-replicas 2", "--max-replicas is 2"),
        ("--models-max 2", "--models-max is not available in a cluster"),
        ("-m vllm://host:8000", "vllm://host:8000 is not a model file"),
        ("--replicas 3x", "invalid int value"),
        ("--frobnicate", "unknown options: --frobnicate"),
    ],
)
def test_what_cannot_be_is_said(words: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_words(words)
