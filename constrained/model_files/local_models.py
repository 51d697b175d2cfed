"""Finds models of other programs, to use them in place: Ollama, LM Studio, llama.cpp.

Layouts: https://github.com/ollama/ollama/blob/main/docs/faq.md (manifests name blobs),
https://lmstudio.ai/docs/app/basics/import-model (publisher/model/file), and LLAMA_CACHE in
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md (files side by side).
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.engine.gguf.contents import list_parts

PACKAGE, HUGGING_FACE = "a package", "Hugging Face"
OLLAMA, LM_STUDIO, LLAMA_CPP = "Ollama", "LM Studio", "llama.cpp"
PREFIXES = {
    PACKAGE: "",
    HUGGING_FACE: "hf:",
    OLLAMA: "ollama:",
    LM_STUDIO: "lmstudio:",
    LLAMA_CPP: "llama.cpp:",
}
"""What begins the source of a model, by where it comes from."""
OLLAMA_WEIGHTS = "application/vnd.ollama.image.model"
OLLAMA_DEFAULTS = re.compile(r"registry\.ollama\.ai/(library/)?")
"""The parts that Ollama leaves out of names: its registry, and the folder of its own models."""
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}$")
_FIRST_PART = re.compile(r"-00001-of-\d{5}$")
_PROJECTOR = "mmproj"
_BLOB = "sha256-"


@dataclass(frozen=True)
class LocalModel:
    """A model on this machine.

    Attributes:
        program: the program that has downloaded it, or PACKAGE or HUGGING_FACE.
        path, bytes: of its file or of its first part; of all parts.
        used: when it was last read, in seconds since 1970; None: not known.
    """

    program: str
    name: str
    path: Path
    bytes: int
    used: float | None = None

    @property
    def source(self) -> str:
        """The name for `load` and `-m`, such as `ollama:qwen3:8b`."""
        return PREFIXES[self.program] + self.name

    @property
    def aliases(self) -> list[str]:
        """Further names, in lower case: the source, or only the last part of its name, or the name
        of its file; each with the program and without."""
        names = [self.name, self.name.rpartition("/")[2]]
        if self.path.suffix == ".gguf":
            names.append(name_model(self.path))
        prefixes = ("", PREFIXES[self.program])
        return [(prefix + name).lower() for name in names for prefix in prefixes]


def list_local() -> list[LocalModel]:
    """Lists the models of other programs on this machine, program by program."""
    home = Path.home()
    models = list(_list_ollama(Path(os.environ.get("OLLAMA_MODELS") or home / ".ollama/models")))
    for folder in (home / ".lmstudio/models", home / ".cache/lm-studio/models"):
        models += _list_folder(LM_STUDIO, folder)
    return models + list(_list_folder(LLAMA_CPP, _find_llama_cache(home)))


def _find_llama_cache(home: Path) -> Path:
    if given := os.environ.get("LLAMA_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    if sys.platform == "darwin":
        base = home / "Library/Caches"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData/Local"
    return Path(base, "llama.cpp")


def _list_ollama(folder: Path) -> Iterator[LocalModel]:
    manifests = folder / "manifests"
    for manifest in sorted(manifests.rglob("*")):
        digest = _read_weights(manifest)
        blob = folder / "blobs" / digest.replace(":", "-")
        if not digest or not blob.is_file():
            continue
        name, _, tag = manifest.relative_to(manifests).as_posix().rpartition("/")
        yield _describe(OLLAMA, f"{OLLAMA_DEFAULTS.sub('', name, count=1)}:{tag}", blob)


def _read_weights(manifest: Path) -> str:
    """Returns the digest of the weights in a manifest of Ollama; "": it has none."""
    try:
        layers: Any = json.loads(manifest.read_bytes())["layers"]
        for layer in layers:
            if layer["mediaType"] == OLLAMA_WEIGHTS:
                return str(layer["digest"])
    except (OSError, ValueError, KeyError, TypeError):  # a folder, or another kind of file
        pass
    return ""


def _list_folder(program: str, folder: Path) -> Iterator[LocalModel]:
    for path in find_models(folder.rglob("*.gguf")):
        name = _FIRST_PART.sub("", path.relative_to(folder).with_suffix("").as_posix())
        yield _describe(program, name, path)


def _describe(program: str, name: str, path: Path) -> LocalModel:
    return LocalModel(program, name, path, measure_files(str(path)), path.stat().st_atime)


def find_models(paths: Iterable[Path]) -> list[Path]:
    """Returns the models among GGUF files, sorted: of split models, the first part; without
    projectors."""
    models: list[Path] = []
    for path in sorted(paths):
        if not _LATER_PART.search(path.stem) and not path.name.startswith(_PROJECTOR):
            models.append(path)
    return models


def name_model(path: Path) -> str:
    """Returns the name of a model: that of its file without the ending, or Ollama's."""
    return _name_blob(path) or _FIRST_PART.sub("", path.stem)


def name_file(path: Path) -> str:
    """Returns the name of a model's file, or Ollama's name of the model."""
    return _name_blob(path) or path.name


def _name_blob(path: Path) -> str | None:
    """Returns Ollama's name of a model that is one of its blobs."""
    if path.name.startswith(_BLOB):
        for model in _list_ollama(path.absolute().parent.parent):
            if model.path.name == path.name:
                return model.name
    return None


def measure_files(path: str | None) -> int:
    """Returns the size of a model's files in bytes, with all parts; 0: not known yet."""
    if not path or not Path(path).is_file():
        return 0
    return sum(part.stat().st_size for part in list_parts(Path(path)))
