"""Models that packages bring are found by name, without an import of the package."""

import sys
from pathlib import Path

import pytest

from constrained import Sampling, load
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.errors import ModelError
from constrained.model_files import embedded
from constrained.model_files.packaged import MODELS, PackagedModel, find_packaged
from constrained.model_files.sources import find_source
from tests.command_line import Run

BROUGHT = {"brought": PackagedModel("brings_a_model", "a.gguf", "pip install brings-a-model")}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that fails if it is imported."""
    folder = tmp_path / "brings_a_model"
    folder.mkdir()
    (folder / "__init__.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_found_without_an_import(package: Path) -> None:
    (package / "a.gguf").touch()
    assert find_packaged("brought", models=BROUGHT) == package / "a.gguf"
    assert "brings_a_model" not in sys.modules


def test_a_package_without_its_file(package: Path) -> None:
    with pytest.raises(ModelError, match=r"brings_a_model has no a\.gguf"):
        find_packaged("brought", models=BROUGHT)


def test_a_package_that_is_missing() -> None:
    with pytest.raises(ModelError, match="is not installed") as failure:
        find_packaged("brought", models=BROUGHT)
    assert failure.value.hint == "Install it: pip install brings-a-model"


def test_a_file_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert find_packaged("demo") == find_source("demo") == embedded.PATH
    Path("demo").rmdir()
    Path("demo").touch()
    assert find_packaged("demo") is None


@pytest.mark.parametrize("source", ["hf:user/smollm2", "./smollm2", "smollm2.gguf", Path("demo")])
def test_what_is_no_name(source: str | Path) -> None:
    assert find_packaged(source) is None


def test_a_named_demo_model(monkeypatch: pytest.MonkeyPatch) -> None:
    with load("demo", threads=1) as model:
        assert model.notices == ()
        assert model.sampling == Sampling()
    monkeypatch.setenv("LLAMA_ARG_MODEL", "demo")
    with load(threads=1) as model:
        assert model.notices == ()


def test_the_command_line_says_how_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.model_files.packaged.find_spec", lambda name: None)
    for command in (["call", "Hello"], ["chat"], ["serve"]):
        code, out, err = run(*command, "-m", "smollm2")
        assert (code, out) == (ExitCode.MODEL, ""), command
        assert MODELS["smollm2"].install in err
